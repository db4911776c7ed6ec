//! Tables and sizes for people.

/// Rows under a heading, in columns as wide as need be; columns of numbers stand right.
pub(super) fn table(heading: &[&str], rows: &[Vec<String>]) -> String {
    let columns = heading.len();
    let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| cell(row, column).chars().count());
        cells.max().unwrap_or(0).max(heading[column].len())
    };
    let is_number = |column: usize| {
        let starts = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
        let mut cells = rows.iter().map(|row| cell(row, column));
        !rows.is_empty() && cells.all(|cell| starts(&cell) || cell == "-")
    };
    let heading: Vec<String> = heading.iter().map(|text| (*text).to_owned()).collect();
    let mut text = String::new();
    for row in std::iter::once(&heading).chain(rows) {
        let mut line = String::new();
        for column in 0..columns {
            let (cell, width) = (cell(row, column), width(column));
            if is_number(column) {
                line += &format!("{cell:>width$}  ");
            } else {
                line += &format!("{cell:<width$}  ");
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
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

    #[test]
    fn numbers_stand_right() {
        let rows = vec![
            vec!["a".to_owned(), "5 MiB".to_owned()],
            vec!["long".to_owned(), "-".to_owned()],
        ];
        let text = table(&["NAME", "SIZE"], &rows);
        assert_eq!(text, "NAME   SIZE\na     5 MiB\nlong      -\n");
    }
}
