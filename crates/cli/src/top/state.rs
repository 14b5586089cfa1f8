//! What is shown, and how keys change that.

use std::ops::Range;

use lockswap_trace::live::{Order, Over, RowId};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What the part of the screen below the table shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pane {
    /// Nothing: the table has all of it.
    None,
    /// The chosen lock.
    Lock,
    /// The keys and the columns.
    Help,
}

/// What a key asks for beyond another picture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// The end.
    Quit,
    /// To forget what was until now.
    Reset,
}

/// What is shown.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    /// Of which time.
    pub over: Over,
    /// In which order.
    pub order: Order,
    /// Below the table.
    pub pane: Pane,
    /// Nothing changes.
    pub is_paused: bool,
    /// Lines of the pane that are above what can be seen of it.
    pub scrolled: u16,
    /// The chosen row, once one was chosen: until then it is the first one, whichever that is.
    chosen: Option<RowId>,
    /// Rows that are above the first one that can be seen.
    above: usize,
}

impl Default for State {
    fn default() -> Self {
        let (over, order) = (Over::Last, Order::Waited);
        Self { over, order, pane: Pane::None, is_paused: false, scrolled: 0, chosen: None, above: 0 }
    }
}

impl State {
    /// A key was pressed; `rows` are all of the table, `page` is how many can be seen.
    pub fn press(&mut self, key: KeyEvent, rows: &[RowId], page: usize) -> Asked {
        let far = page.max(1) as isize;
        match key.code {
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return Asked::Quit,
            KeyCode::Char('q') | KeyCode::Esc => return Asked::Quit,
            KeyCode::Char('r') => return Asked::Reset,
            KeyCode::Char('s') => self.order = next(self.order),
            KeyCode::Char('t') => self.over = if self.over == Over::Last { Over::All } else { Over::Last },
            KeyCode::Char(' ') => self.is_paused = !self.is_paused,
            KeyCode::Char('?' | 'h') => self.turn(Pane::Help),
            KeyCode::Enter => self.turn(Pane::Lock),
            KeyCode::Up | KeyCode::Char('k') => self.choose(rows, -1),
            KeyCode::Down | KeyCode::Char('j') => self.choose(rows, 1),
            KeyCode::PageUp if self.pane != Pane::None => self.scrolled = self.scrolled.saturating_sub(SCROLL),
            KeyCode::PageDown if self.pane != Pane::None => self.scrolled = self.scrolled.saturating_add(SCROLL),
            KeyCode::PageUp => self.choose(rows, -far),
            KeyCode::PageDown => self.choose(rows, far),
            KeyCode::Home | KeyCode::Char('g') => (self.chosen, self.scrolled) = (None, 0),
            KeyCode::End | KeyCode::Char('G') => self.choose(rows, rows.len() as isize),
            _ => {}
        }
        Asked::Nothing
    }

    /// Opens this pane, or closes it.
    fn turn(&mut self, pane: Pane) {
        self.pane = if self.pane == pane { Pane::None } else { pane };
        self.scrolled = 0;
    }

    fn choose(&mut self, rows: &[RowId], by: isize) {
        let place = self.place(rows).saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.chosen = rows.get(place).copied();
        self.scrolled = 0;
    }

    /// Where the chosen row is.
    pub fn place(&self, rows: &[RowId]) -> usize {
        self.chosen.and_then(|chosen| rows.iter().position(|row| *row == chosen)).unwrap_or_default()
    }

    /// The rows that can be seen where there is room for so many, the chosen one among them.
    pub fn window(&mut self, rows: &[RowId], room: usize) -> Range<usize> {
        let place = self.place(rows);
        let least = (place + 1).saturating_sub(room);
        let most = place.min(rows.len().saturating_sub(room));
        self.above = self.above.clamp(least.min(most), most);
        self.above..(self.above + room).min(rows.len())
    }
}

/// Lines that the pane moves at a time.
const SCROLL: u16 = 5;

fn next(order: Order) -> Order {
    let place = Order::ALL.iter().position(|other| *other == order).unwrap_or_default();
    Order::ALL[(place + 1) % Order::ALL.len()]
}
