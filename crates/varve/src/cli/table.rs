//! Tables and sizes for people.

/// A column, by its heading.
#[derive(Clone, Copy)]
pub(super) enum Column {
    /// Names and words, from the left.
    Text(&'static str),
    /// Numbers and sizes, which stand right: they are compared by where they end.
    Number(&'static str),
}

impl Column {
    const fn heading(self) -> &'static str {
        match self {
            Self::Text(heading) | Self::Number(heading) => heading,
        }
    }
}

/// Rows under a heading, in columns as wide as need be.
pub(super) fn table(columns: &[Column], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| cell(row, column).chars().count());
        cells
            .max()
            .unwrap_or(0)
            .max(columns[column].heading().len())
    };
    let heading: Vec<_> = columns.iter().map(|one| one.heading().to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for (column, kind) in columns.iter().enumerate() {
            let (cell, width) = (cell(row, column), width(column));
            line += &match kind {
                Column::Number(_) => format!("{cell:>width$}  "),
                Column::Text(_) => format!("{cell:<width$}  "),
            };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// So many of something, in words: `1 volume`, `2 volumes`.
pub(crate) fn count(number: u64, one: &str) -> String {
    either(number, one, &format!("{one}s"))
}

/// A number with what is said of one, or of several.
pub(crate) fn either(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {several}"),
    }
}

/// A size for people, in powers of 1024; exact ones have no point.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let unit = (bytes.max(1).ilog2() / 10).min(5);
    let whole = 1_u64 << (10 * unit);
    let name = UNITS[unit as usize];
    if bytes.is_multiple_of(whole) {
        format!("{} {name}", bytes / whole)
    } else {
        format!("{:.1} {name}", bytes as f64 / whole as f64)
    }
}

/// A size, if it is known.
pub(super) fn size_or_dash(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        assert_eq!(size(0), "0 B");
        assert_eq!(size(10 << 30), "10 GiB");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "16384.0 PiB");
    }

    /// Which way a column stands is its kind, whatever its cells begin with: names and identities of one table
    /// may all begin with a digit, and those of the next one not.
    #[test]
    fn columns_stand_by_their_kind() {
        let columns = [Column::Text("NAME"), Column::Number("SIZE")];
        let rows = |first: &str, second: &str| {
            vec![
                vec![first.to_owned(), "5 MiB".to_owned()],
                vec![second.to_owned(), "-".to_owned()],
            ]
        };
        let text = table(&columns, &rows("a", "long"));
        assert_eq!(text, "NAME   SIZE\na     5 MiB\nlong      -\n");
        let text = table(&columns, &rows("1", "1234"));
        assert_eq!(text, "NAME   SIZE\n1     5 MiB\n1234      -\n");
    }

    #[test]
    fn one_is_one() {
        let counts = [0, 1, 2].map(|number| count(number, "drive"));
        assert_eq!(counts, ["0 drives", "1 drive", "2 drives"]);
    }
}
