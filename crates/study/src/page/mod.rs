//! Tables with what is said about them, as Markdown and as a page for a browser.

use crate::summary::Judgement;

/// What is shown, in the order in which it is shown.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// What was measured.
    pub title: String,
    /// What follows, in sentences.
    pub conclusion: Vec<String>,
    /// The numbers.
    pub tables: Vec<Table>,
    /// Pictures, which stand below the tables of a page and nowhere else.
    pub pictures: Vec<Picture>,
    /// How to read the tables, and what to mind, a line each.
    pub notes: Vec<String>,
}

/// A picture.
#[derive(Clone, Debug)]
pub struct Picture {
    /// What it shows; readers who do not see it have this and the tables.
    pub caption: String,
    /// Whether it takes the whole width of the page.
    pub is_wide: bool,
    /// The picture as SVG.
    pub svg: Vec<u8>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows, where there are several.
    pub title: Option<String>,
    /// How to read it, where it does not explain itself.
    pub about: Option<String>,
    /// Its columns: their headings, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// How strongly cells are coloured, by row and column, where numbers are many: from -1, bad, to 1, good.
    pub colours: Vec<Vec<f64>>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<String>,
    /// What it says, which colours its last cell.
    pub judgement: Judgement,
}

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Tables with so many rows in all can be filtered.
const MANY_ROWS: usize = 30;
/// The strongest colour of a cell leaves its text readable.
const STRONGEST: f64 = 0.6;

impl Page {
    /// The page as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("`{}`\n", self.title.replace('`', "'"));
        for table in &self.tables {
            text += "\n";
            if let Some(title) = &table.title {
                text += &format!("**{title}**\n\n");
            }
            if let Some(about) = &table.about {
                text += &format!("{about}\n\n");
            }
            text += &table.markdown();
        }
        text += "\n";
        for sentence in &self.conclusion {
            text += &format!("**{sentence}**\n\n");
        }
        self.notes.iter().for_each(|note| text += &format!("- {}\n", note.replace('|', "\\|")));
        text
    }

    /// The page as HTML, which needs no other file. It shows the same without its script, which sorts and filters.
    pub fn html(&self) -> String {
        let name = escaped(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>lockswap: {name}</title>\
             <link rel=\"icon\" href=\"data:,\"><style>{STYLE}</style>\n\
             <a class=\"skip\" href=\"#answer\">To the answer</a>\n<main>\n<h1>{name}</h1>\n<div id=\"answer\">\n"
        );
        for sentence in &self.conclusion {
            text += &format!("<p><strong>{}</strong></p>\n", escaped(sentence));
        }
        text += "</div>\n";
        if self.tables.len() > 2 {
            let entry = |(index, table): (usize, &Table)| {
                let title = table.title.as_ref()?;
                Some(format!("<li><a href=\"#table{index}\">{}</a></li>\n", escaped(title)))
            };
            let mut entries = self.tables.iter().enumerate().filter_map(entry).collect::<String>();
            if !self.pictures.is_empty() {
                entries += "<li><a href=\"#pictures\">Pictures</a></li>\n";
            }
            text += &format!("<nav aria-label=\"Tables\">\n<ul>\n{entries}</ul>\n</nav>\n");
        }
        if self.tables.iter().map(|table| table.rows.len()).sum::<usize>() >= MANY_ROWS {
            text += "<label hidden>Show rows and pictures with <input id=\"filter\" type=\"search\"></label>\n";
        }
        for (index, table) in self.tables.iter().enumerate() {
            if let Some(title) = &table.title {
                text += &format!("<h2 id=\"table{index}\">{}</h2>\n", escaped(title));
            }
            if let Some(about) = &table.about {
                text += &format!("<p>{}</p>\n", escaped(about));
            }
            text += &table.html();
        }
        if !self.pictures.is_empty() {
            text += "<h2 id=\"pictures\">Pictures</h2>\n<div class=\"pictures\">\n";
        }
        for picture in &self.pictures {
            let caption = escaped(&picture.caption);
            let source = percent_encoded(&picture.svg);
            let class = if picture.is_wide { " class=\"wide\"" } else { "" };
            text += &format!(
                "<figure{class}><figcaption>{caption}</figcaption>\
                 <img alt=\"{caption}\" src=\"data:image/svg+xml,{source}\"></figure>\n"
            );
        }
        text += if self.pictures.is_empty() { "" } else { "</div>\n" };
        let notes = self.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect::<String>();
        text + &format!("<ul>\n{notes}</ul>\n</main>\n<script>{SCRIPT}</script>\n</html>\n")
    }
}

impl Table {
    /// The table as Markdown.
    pub fn markdown(&self) -> String {
        let in_one_line = |cell: &String| cell.replace('|', "\\|").replace('\n', "<br>");
        let headings = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let rows = self.rows.iter().map(|row| row.cells.iter().map(in_one_line).collect());
        let lines: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
        let width = |column: usize| {
            lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or_default()
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for (index, line) in lines.iter().enumerate() {
            let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text += &format!("| {} |\n", cells.join(" | "));
            if index == 0 {
                let dash = |(width, (_, is_numeric)): (&usize, &(String, bool))| match is_numeric {
                    true => format!("{}:", "-".repeat(width + 1)),
                    false => "-".repeat(width + 2),
                };
                text += &format!("|{}|\n", widths.iter().zip(&self.columns).map(dash).collect::<Vec<_>>().join("|"));
            }
        }
        text
    }

    fn html(&self) -> String {
        let class = |is_numeric: bool| if is_numeric { " class=\"n\"" } else { "" };
        let headings = self
            .columns
            .iter()
            .map(|(heading, numeric)| format!("<th scope=\"col\"{}>{}</th>", class(*numeric), escaped(heading)));
        let label = self.title.as_deref().unwrap_or("Results");
        let mut text = format!(
            "<div class=\"table\" role=\"region\" tabindex=\"0\" aria-label=\"{}\">\n<table>\n<thead>\
             <tr>{}</tr></thead>\n<tbody>\n",
            escaped(label),
            headings.collect::<String>()
        );
        for (number, row) in self.rows.iter().enumerate() {
            let cells = self.columns.iter().zip(&row.cells).enumerate().map(|(column, ((_, numeric), cell))| {
                let cell = escaped(cell).replace('\n', "<br>");
                if column == 0 {
                    return format!("<th scope=\"row\"{}>{cell}</th>", class(*numeric));
                }
                let colour = self.colours.get(number).and_then(|row| row.get(column)).copied().unwrap_or_default();
                match colour {
                    0.0 => format!("<td{}>{cell}</td>", class(*numeric)),
                    colour => {
                        let name = if colour > 0.0 { "good" } else { "bad" };
                        let strength = colour.abs().min(1.0) * STRONGEST;
                        format!("<td class=\"n {name}\" style=\"--h:{strength:.2}\">{cell}</td>")
                    }
                }
            });
            let judged = match row.judgement {
                Judgement::Better => " class=\"better\"",
                Judgement::Worse | Judgement::Failed => " class=\"worse\"",
                _ => "",
            };
            text += &format!("<tr{judged}>{}</tr>\n", cells.collect::<String>());
        }
        text + "</tbody>\n</table>\n</div>\n"
    }
}

/// Bytes as they stand in the address of a picture (RFC 3986).
fn percent_encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 3 / 2);
    for byte in bytes {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'=' | b':' | b'/' | b',' | b';' => {
                text.push(char::from(*byte));
            }
            byte => text += &format!("%{byte:02X}"),
        }
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_pictures_and_colours() {
        let row = Row { cells: vec!["a".into(), "1".into(), "2".into()], judgement: Judgement::Same };
        let columns = ["lock", "x", "y"].map(|name| (name.to_owned(), name != "lock")).to_vec();
        let colours = vec![vec![0.0, 0.5, -2.0]];
        let table = Table { columns, rows: vec![row], colours, ..Table::default() };
        let picture = Picture { caption: "p<q".into(), svg: b"<svg x='1%'/>".to_vec(), is_wide: true };
        let page = Page { title: "t".into(), tables: vec![table], pictures: vec![picture], ..Page::default() };
        let html = page.html();
        assert!(html.contains("<td class=\"n good\" style=\"--h:0.30\">1</td>"), "{html}");
        assert!(html.contains("<td class=\"n bad\" style=\"--h:0.60\">2</td>"), "{html}");
        assert!(html.contains("<figure class=\"wide\">"), "{html}");
        assert!(
            html.contains("alt=\"p&lt;q\"") && html.contains("data:image/svg+xml,%3Csvg%20x=%271%25%27/%3E\""),
            "{html}"
        );
        // Few rows need no filter, and two tables no list of them.
        assert!(!html.contains("id=\"filter\"") && !html.contains("<nav"), "{html}");
    }

    #[test]
    fn cells_of_several_lines_stay_in_their_row() {
        let row = Row { cells: vec!["a|b".into(), "1\n2".into()], judgement: Judgement::Worse };
        let columns = vec![("lock".to_owned(), false), ("n".to_owned(), true)];
        let table = Table { columns, rows: vec![row], ..Table::default() };
        let page = Page { title: "x<y".into(), tables: vec![table], ..Page::default() };
        let lines: Vec<String> = page.markdown().lines().map(str::to_owned).collect();
        assert_eq!(lines[2..5], ["| lock | n      |", "|------|-------:|", "| a\\|b | 1<br>2 |"]);
        let html = page.html();
        assert!(html.contains("<h1>x&lt;y</h1>") && html.contains("<td class=\"n\">1<br>2</td>"), "{html}");
        assert!(html.contains("<tr class=\"worse\"><th scope=\"row\">a|b</th>"), "{html}");
    }
}
