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
    /// How to read the tables, and what to mind, a line each.
    pub notes: Vec<String>,
}

/// A table.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What it shows, where there are several.
    pub title: Option<String>,
    /// Its columns: their headings, and whether they hold numbers.
    pub columns: Vec<(String, bool)>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub struct Row {
    /// A cell for each column.
    pub cells: Vec<String>,
    /// What it says, which colours its last cell.
    pub judgement: Judgement,
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;display:block;overflow-x:auto}th,td{padding:.2em .8em;text-align:left}\
.n{text-align:right;font-variant-numeric:tabular-nums}tr+tr{border-top:1px solid #8886}\
.better td:last-child{color:#00796b}.worse td:last-child{color:#b3530b}\
@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}\
.better td:last-child{color:#4db6ac}.worse td:last-child{color:#ffa95c}}";

impl Page {
    /// The page as Markdown.
    pub fn markdown(&self) -> String {
        let mut text = format!("`{}`\n", self.title.replace('`', "'"));
        for table in &self.tables {
            text += "\n";
            if let Some(title) = &table.title {
                text += &format!("**{title}**\n\n");
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

    /// The page as HTML, which needs no other file.
    pub fn html(&self) -> String {
        let name = escaped(&self.title);
        let mut text = format!(
            "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\"><title>lockswap: {name}</title>\
             <style>{STYLE}</style>\n<h1>{name}</h1>\n"
        );
        for sentence in &self.conclusion {
            text += &format!("<p><strong>{}</strong></p>\n", escaped(sentence));
        }
        for table in &self.tables {
            if let Some(title) = &table.title {
                text += &format!("<h2>{}</h2>\n", escaped(title));
            }
            text += &table.html();
        }
        let notes = self.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect::<String>();
        text + &format!("<ul>\n{notes}</ul>\n</html>\n")
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
        let headings =
            self.columns.iter().map(|(heading, numeric)| format!("<th{}>{}</th>", class(*numeric), escaped(heading)));
        let mut text = format!("<table>\n<tr>{}</tr>\n", headings.collect::<String>());
        for row in &self.rows {
            let cells = self.columns.iter().zip(&row.cells).map(|((_, numeric), cell)| {
                format!("<td{}>{}</td>", class(*numeric), escaped(cell).replace('\n', "<br>"))
            });
            let judged = match row.judgement {
                Judgement::Better => " class=\"better\"",
                Judgement::Worse | Judgement::Failed => " class=\"worse\"",
                _ => "",
            };
            text += &format!("<tr{judged}>{}</tr>\n", cells.collect::<String>());
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

    #[test]
    fn cells_of_several_lines_stay_in_their_row() {
        let row = Row { cells: vec!["a|b".into(), "1\n2".into()], judgement: Judgement::Worse };
        let columns = vec![("lock".to_owned(), false), ("n".to_owned(), true)];
        let table = Table { title: None, columns, rows: vec![row] };
        let page = Page { title: "x<y".into(), tables: vec![table], ..Page::default() };
        let lines: Vec<String> = page.markdown().lines().map(str::to_owned).collect();
        assert_eq!(lines[2..5], ["| lock | n      |", "|------|-------:|", "| a\\|b | 1<br>2 |"]);
        let html = page.html();
        assert!(html.contains("<h1>x&lt;y</h1>") && html.contains("<td class=\"n\">1<br>2</td>"), "{html}");
        assert!(html.contains("<tr class=\"worse\">"), "{html}");
    }
}
