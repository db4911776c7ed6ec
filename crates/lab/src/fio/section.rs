//! Sections of a job file.

use super::error::{FioError, shown};

/// Longest file. Arbitrary: ten thousand jobs of a few lines.
const BYTES_MAX: usize = 1 << 20;

/// A line of a section: an option, and its value if there is one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Setting<'a> {
    pub(super) line: u32,
    pub(super) option: &'a str,
    pub(super) value: Option<&'a str>,
}

/// A section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Section<'a> {
    pub(super) line: u32,
    pub(super) name: &'a str,
    pub(super) settings: Vec<Setting<'a>>,
}

/// The sections of a file, in their order.
pub(super) fn sections(text: &str) -> Result<Vec<Section<'_>>, FioError> {
    if text.len() > BYTES_MAX {
        let (bytes, max) = (text.len(), BYTES_MAX);
        return Err(FioError::Long { bytes, max });
    }
    let mut sections: Vec<Section<'_>> = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        // A comment may follow an option: fio cuts lines there too, though its HOWTO does not say so.
        let text = text.split([';', '#']).next().unwrap_or_default().trim();
        if text.is_empty() {
            continue;
        }
        if let Some(rest) = text.strip_prefix('[') {
            let name = rest.strip_suffix(']').map(str::trim);
            let name = name.filter(|name| !name.is_empty());
            sections.push(Section {
                line,
                name: name.ok_or(FioError::Header { line })?,
                settings: Vec::new(),
            });
            continue;
        }
        if text == "include" || text.starts_with("include ") {
            return Err(FioError::Include { line });
        }
        let Some(section) = sections.last_mut() else {
            let text = shown(text);
            return Err(FioError::Stray { line, text });
        };
        let (option, value) = match text.split_once('=') {
            Some((option, value)) => (option.trim(), Some(value.trim())),
            None => (text, None),
        };
        section.settings.push(Setting {
            line,
            option,
            value,
        });
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_have_their_lines() {
        let text = "; before\r\n[global]\n# all\nrw = randrw ; mixed\n\n[ a b ]\nnorandommap\nx=\n";
        let sections = sections(text).unwrap();
        let setting = |line, option, value| Setting {
            line,
            option,
            value,
        };
        let expected = [
            Section {
                line: 2,
                name: "global",
                settings: vec![setting(4, "rw", Some("randrw"))],
            },
            Section {
                line: 6,
                name: "a b",
                settings: vec![setting(7, "norandommap", None), setting(8, "x", Some(""))],
            },
        ];
        assert_eq!(sections, expected);
    }

    #[test]
    fn lines_that_are_none_are_refused() {
        let line = 2;
        for (text, error) in [
            ("\n[a", FioError::Header { line }),
            ("\n[]", FioError::Header { line }),
            (
                "\nglobal]",
                FioError::Stray {
                    line,
                    text: "global]".to_owned(),
                },
            ),
            ("[a]\ninclude b.fio", FioError::Include { line }),
        ] {
            assert_eq!(sections(text), Err(error));
        }
        let (bytes, max) = (BYTES_MAX + 1, BYTES_MAX);
        assert_eq!(
            sections(&" ".repeat(bytes)),
            Err(FioError::Long { bytes, max })
        );
    }
}
