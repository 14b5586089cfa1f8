//! Results as a page for people: Markdown and HTML.

/// What the page shows, from its top to its end.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The heading.
    pub title: String,
    /// The result in sentences.
    pub conclusion: Vec<String>,
    /// The tables.
    pub grids: Vec<Grid>,
    /// How to read them, and where they come from.
    pub notes: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// What it shows, where there are several.
    pub title: Option<String>,
    /// The headings of its columns, and whether a column holds numbers.
    pub columns: Vec<(String, bool)>,
    /// Its rows, each with as many cells as there are columns.
    pub rows: Vec<(Vec<String>, Mood)>,
}

/// How good what a row says is: the colour of its last cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Neither good nor bad.
    #[default]
    Neither,
    /// Better than what it is compared with.
    Better,
    /// Worse, or a failure.
    Worse,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;display:block;overflow-x:auto}th,td{padding:.2em .8em;text-align:left}\
.n{text-align:right;font-variant-numeric:tabular-nums}tr+tr{border-top:1px solid #8886}\
.better td:last-child{color:#00796b}.worse td:last-child{color:#b3530b}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}\
.better td:last-child{color:#4db6ac}.worse td:last-child{color:#ffa95c}}";

impl Page {
    /// The page as Markdown (GitHub's).
    pub fn markdown(&self) -> String {
        let mut text = format!("`{}`\n", self.title.replace('`', "'"));
        for grid in &self.grids {
            text += "\n";
            if let Some(title) = &grid.title {
                text += &format!("**{title}**\n\n");
            }
            text += &grid.markdown();
        }
        text += "\n";
        for sentence in &self.conclusion {
            text += &format!("**{sentence}**\n\n");
        }
        self.notes.iter().for_each(|note| text += &format!("- {}\n", note.replace('|', "\\|")));
        text
    }

    /// The page as HTML, complete and without anything from elsewhere.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>lockswap: {title}</title>\
             <style>{STYLE}</style>\n<h1>{title}</h1>\n"
        );
        for sentence in &self.conclusion {
            text += &format!("<p><strong>{}</strong></p>\n", escaped(sentence));
        }
        for grid in &self.grids {
            if let Some(title) = &grid.title {
                text += &format!("<h2>{}</h2>\n", escaped(title));
            }
            text += &grid.html();
        }
        let notes = self.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect::<String>();
        text + &format!("<ul>\n{notes}</ul>\n</html>\n")
    }
}

impl Grid {
    fn markdown(&self) -> String {
        let mut text = String::new();
        let headings = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let rows = self.rows.iter().map(|(cells, _)| cells.iter().map(|cell| cell.replace('|', "\\|")).collect());
        let lines: Vec<Vec<String>> = std::iter::once(headings).chain(rows).collect();
        let width = |column: usize| lines.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        for (index, row) in lines.iter().enumerate() {
            let line: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
            text += &format!("| {} |\n", line.join(" | "));
            if index == 0 {
                let dash = |(width, (_, numeric)): (&usize, &(String, bool))| match numeric {
                    true => format!("{}:", "-".repeat(width + 1)),
                    false => "-".repeat(width + 2),
                };
                text += &format!("|{}|\n", widths.iter().zip(&self.columns).map(dash).collect::<Vec<_>>().join("|"));
            }
        }
        text
    }

    fn html(&self) -> String {
        let class = |numeric: bool| if numeric { " class=\"n\"" } else { "" };
        let headings = self.columns.iter().map(|(text, n)| format!("<th{}>{}</th>", class(*n), escaped(text)));
        let mut text = format!("<table>\n<tr>{}</tr>\n", headings.collect::<String>());
        for (cells, mood) in &self.rows {
            let cells = self.columns.iter().zip(cells);
            let cells = cells.map(|((_, n), cell)| format!("<td{}>{}</td>", class(*n), escaped(cell)));
            let mood = match mood {
                Mood::Better => " class=\"better\"",
                Mood::Worse => " class=\"worse\"",
                Mood::Neither => "",
            };
            text += &format!("<tr{mood}>{}</tr>\n", cells.collect::<String>());
        }
        text + "</table>\n"
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let columns = vec![("lock".to_owned(), false), ("ratio".to_owned(), true)];
        let rows =
            vec![(vec!["a|b".into(), "1.5".into()], Mood::Better), (vec!["<c>".into(), "0.5".into()], Mood::Worse)];
        let grid = Grid { title: Some("one".into()), columns, rows };
        Page {
            title: "./p & q".into(),
            conclusion: vec!["a wins".into()],
            grids: vec![grid],
            notes: vec!["x | y".into()],
        }
    }

    #[test]
    fn markdown_escapes_what_would_end_a_cell() {
        let text = page().markdown();
        assert!(text.contains("| lock | ratio |\n|------|------:|\n| a\\|b | 1.5   |"), "{text}");
        assert!(text.contains("- x \\| y\n") && text.contains("**a wins**"), "{text}");
    }

    #[test]
    fn html_escapes_markup() {
        let text = page().html();
        assert!(text.contains("<h1>./p &amp; q</h1>") && text.contains("<td>&lt;c&gt;</td>"), "{text}");
        assert!(text.contains("<tr class=\"better\"><td>a|b</td><td class=\"n\">1.5</td></tr>"), "{text}");
    }
}
