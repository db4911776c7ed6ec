//! What comparators and the engine go by, as a part of the page and as text.

use super::Chapter;
use super::plot::escaped;
use crate::comparators::{StatedOf, join, listed, rows};
use std::fmt::Write;

/// What was stated in all chapters, each value once.
fn of_all(chapters: &[Chapter<'_>]) -> Vec<StatedOf> {
    let mut all = Vec::new();
    let stated = chapters.iter().flat_map(|chapter| &chapter.outcome.stated);
    stated.for_each(|one| join(&mut all, &one.of, &one.parameters));
    all
}

/// The part of the page that has them, with its place; nothing if nothing was stated.
pub(super) fn section(chapters: &[Chapter<'_>]) -> String {
    let all = of_all(chapters);
    if all.is_empty() {
        return String::new();
    }
    let mut part = "<section id=\"parameters\"><h2>Parameters of what is compared</h2>\n\
        <p>Values are those of a comparator's documents, or chosen where no document tells one, which is said. Where runs \
        differed all values stand beside one another. The engine's are its own.</p>\n"
        .to_owned();
    for StatedOf { of, parameters } in &all {
        write!(
            part,
            "<h3 id=\"of-{of}\">{of}</h3>\n<table class=\"stated\"><thead><tr><th>parameter</th><th>value</th>\
             <th>source</th></tr></thead><tbody>\n"
        )
        .expect("a string can grow");
        for (name, value, source) in rows(parameters) {
            writeln!(
                part,
                "<tr><td>{}</td><td>{}</td><td class=\"quiet\">{}</td></tr>",
                escaped(name),
                escaped(&value),
                escaped(source)
            )
            .expect("a string can grow");
        }
        part += "</tbody></table>\n";
    }
    part + "</section>\n"
}

/// Where on the page the parameters of those are that ran in a chapter.
pub(super) fn links(stated: &[StatedOf]) -> String {
    if stated.is_empty() {
        return String::new();
    }
    let link = |of: &StatedOf| format!("<a href=\"#of-{0}\">{0}</a>", of.of);
    let links: Vec<_> = stated.iter().map(link).collect();
    format!("<p class=\"quiet\">Parameters: {}</p>\n", links.join(", "))
}

/// The same as text.
///
/// # Panics
/// Never: a string can grow.
#[must_use]
pub fn parameters(chapters: &[Chapter<'_>]) -> String {
    let mut text = String::new();
    for StatedOf { of, parameters } in of_all(chapters) {
        write!(text, "parameters of {of}:\n{}", listed(&parameters)).expect("a string can grow");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::plot::Plot;
    use super::super::{Ask, Outcome, named, page};
    use super::*;
    use crate::comparators::of_policy;
    use crate::waf::{PolicyName, WafRequest, Workload};

    fn chapter(names: &[PolicyName]) -> Chapter<'static> {
        let plot = Plot::lines("", "", "", Vec::new());
        let mut outcome = Outcome::plotted("", Vec::new(), &[], plot);
        outcome.plots.clear();
        for policy in names {
            let request = WafRequest {
                workload: Workload::Uniform,
                policy: *policy,
                over_provision: 20.0,
                fast_tier: 0.0,
                groups: 24,
                blocks: 60_000,
                warm_up: 0.0,
                measure: 1.0,
                ranks_per_block: 1,
                seed: 1,
            };
            outcome.state(policy.name(), &of_policy(&request));
        }
        Chapter {
            experiment: named("waf-formula").expect("there is one"),
            ask: Ask { seed: 1, scale: 1 },
            outcome,
            elapsed_s: 0.0,
        }
    }

    /// The page and the text have each comparator once, with values and sources, however many experiments ran it; an
    /// experiment names its own.
    #[test]
    fn what_is_stated_stands_on_the_page_once() {
        use PolicyName::{CsalToday, Greedy1};
        let chapters = [
            chapter(&[CsalToday, CsalToday]),
            chapter(&[Greedy1, CsalToday]),
        ];
        let (html, text) = (page("varve", "1", &chapters), parameters(&chapters));
        for (name, links) in [("csal-today", 2), ("greedy-1", 1)] {
            assert_eq!(html.matches(&format!("<h3 id=\"of-{name}\">")).count(), 1);
            assert_eq!(
                html.matches(&format!("<a href=\"#of-{name}\">")).count(),
                links
            );
            assert_eq!(text.matches(&format!("parameters of {name}:\n")).count(), 1);
        }
        let stated = &chapters[0].outcome.stated[0].parameters;
        let begun = html.split("<h3 id=\"of-csal-today\">").nth(1);
        let table = begun
            .and_then(|rest| rest.split("</table>").next())
            .expect("a table");
        for (name, value, source) in rows(stated) {
            let [name, value, source] = [name, &value, source].map(escaped);
            let row = format!(
                "<tr><td>{name}</td><td>{value}</td><td class=\"quiet\">{source}</td></tr>"
            );
            assert_eq!(table.matches(&row).count(), 1, "{row}");
        }
        assert!(text.contains("SPDK_FTL_LIMIT_START"), "{text}");
        assert!(!page("varve", "1", &[chapter(&[])]).contains("parameters"));
    }
}
