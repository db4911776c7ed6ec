//! Every Markdown file has one title and no section without text.

use super::finding::Finding;

const RULE: &str = "markdown";

/// A heading outside code fences.
struct Heading {
    line: usize,
    level: usize,
    /// Whether text follows before the next heading.
    has_text: bool,
}

/// Checks one file.
pub fn check(path: &str, text: &str) -> Vec<Finding> {
    let headings = headings(text);
    let mut findings = Vec::new();
    let titles: Vec<_> = headings
        .iter()
        .filter(|heading| heading.level == 1)
        .collect();
    if titles.is_empty() {
        findings.push(Finding::error(RULE, path, 1, "no `# title`"));
    }
    for title in titles.iter().skip(1) {
        findings.push(Finding::error(RULE, path, title.line, "a second `# title`"));
    }
    for (at, heading) in headings.iter().enumerate() {
        let has_part = headings
            .get(at + 1)
            .is_some_and(|next| next.level > heading.level);
        if !heading.has_text && !has_part {
            findings.push(Finding::error(
                RULE,
                path,
                heading.line,
                "a section without text",
            ));
        }
    }
    findings
}

fn headings(text: &str) -> Vec<Heading> {
    let mut headings: Vec<Heading> = Vec::new();
    let mut fence = None;
    for (at, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let mark = ["```", "~~~"]
            .into_iter()
            .find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        let level = line.len() - line.trim_start_matches('#').len();
        let is_heading = (1..=6).contains(&level) && line[level..].starts_with(' ');
        if fence.is_none() && is_heading {
            headings.push(Heading {
                line: at + 1,
                level,
                has_text: false,
            });
        } else if !trimmed.is_empty()
            && let Some(heading) = headings.last_mut()
        {
            heading.has_text = true;
        }
    }
    headings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check("a.md", text).iter().map(|f| f.line).collect()
    }

    #[test]
    fn one_title() {
        assert_eq!(lines("text\n"), [1]);
        assert_eq!(lines("# a\ntext\n# b\ntext\n"), [3]);
        assert_eq!(lines("# a\n```\n# no heading\n```\n"), [0; 0]);
    }

    #[test]
    fn no_empty_section() {
        assert_eq!(
            lines("# a\n\n## b\ntext\n\n### c\n\n## d\ntext\n## e\n"),
            [6, 10]
        );
        assert_eq!(lines("# a\n## b\n### c\n- text\n"), [0; 0]);
        assert_eq!(lines("# a\n## b\n## c\n- text\n"), [2]);
        assert_eq!(lines("# a\n#hashtag\n"), [0; 0]);
    }
}
