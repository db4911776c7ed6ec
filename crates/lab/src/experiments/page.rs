//! All experiments on one page that needs nothing else: no network, no script.

use super::outcome::{Origin, Outcome, Verdict, number};
use super::plot::{escaped, style};
use super::{Ask, Experiment, parameters};
use std::fmt::Write;

/// An experiment that was run.
pub struct Chapter<'a> {
    /// Which one.
    pub experiment: &'a Experiment,
    /// What was asked of it.
    pub ask: Ask,
    /// What it came to.
    pub outcome: Outcome,
    /// Seconds its jobs took.
    pub elapsed_s: f64,
}

const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem;\
    background:#fff;color:#1b1f24}\
    h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}h3{font-size:1rem}\
    table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;margin:.75rem 0}\
    th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #8884}\
    th:first-child,td:first-child,th:last-child,td:last-child{text-align:left}\
    td:not(:first-child):not(:last-child){white-space:nowrap}\
    .stated td:nth-child(2),.stated th:nth-child(2){text-align:left;white-space:normal}\
    .reproduced{color:#00704f}.off{color:#b03a00;font-weight:600}.quiet{color:#57606a}\
    nav a{margin-right:1rem}a{color:#0058a3}\
    @media (prefers-color-scheme:dark){body{background:#14171a;color:#e6e6e6}\
    .reproduced{color:#4fd0a5}.off{color:#ff9a66}.quiet{color:#a3abb3}a{color:#7ab8ff}}\
    @media print{body{background:#fff;color:#000;max-width:none}nav{display:none}\
    .quiet,a{color:#333}tr,.plot,h2,h3,h2+p,li{break-inside:avoid}h2,h3,h2+p{break-after:avoid}}";

/// The page; `command` makes it again.
///
/// # Panics
/// Never: a string can grow.
#[must_use]
pub fn page(command: &str, version: &str, chapters: &[Chapter<'_>]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">\
         <title>Varve: the laboratory</title><style>{STYLE}{}</style></head><body>\n\
         <h1>Varve: the laboratory</h1>\n",
        style()
    );
    let counts = |verdict| -> usize {
        chapters
            .iter()
            .map(|chapter| chapter.outcome.count(verdict))
            .sum()
    };
    write!(
        page,
        "<p>Published figures beside what the laboratory finds: {} reproduced within their tolerance, \
         {} not, {} not judged at this scale, {} beside, without a verdict. {}</p>\n\
         <p class=\"quiet\">Varve {}. Again: <code>{}</code></p>\n<nav>",
        counts(Verdict::Reproduced),
        counts(Verdict::Off),
        counts(Verdict::Unjudged),
        counts(Verdict::Beside),
        whose(chapters),
        escaped(version),
        escaped(command),
    )
    .expect("a string can grow");
    for chapter in chapters {
        let name = chapter.experiment.name;
        write!(page, "<a href=\"#{name}\">{name}</a>").expect("a string can grow");
    }
    if chapters
        .iter()
        .any(|chapter| !chapter.outcome.stated.is_empty())
    {
        page += "<a href=\"#parameters\">parameters</a>";
    }
    page += "</nav>\n";
    chapters
        .iter()
        .for_each(|chapter| section(&mut page, chapter));
    page + &parameters::section(chapters) + "</body></html>\n"
}

/// What rows are judged by: not every original was published.
fn whose(chapters: &[Chapter<'_>]) -> String {
    let outcomes = || chapters.iter().map(|chapter| &chapter.outcome);
    let count = |origin| outcomes().map(|outcome| outcome.judged_by(origin)).sum();
    let counts: Vec<usize> = Origin::ALL.map(count).to_vec();
    let parts = Origin::ALL.iter().zip(&counts);
    let parts: Vec<_> = parts
        .map(|(origin, count)| format!("{count} {}", origin.words()))
        .collect();
    let all: usize = counts.iter().sum();
    format!("Of the {all} judged {}.", parts.join(", "))
}

fn section(page: &mut String, chapter: &Chapter<'_>) {
    let (experiment, outcome) = (chapter.experiment, &chapter.outcome);
    write!(
        page,
        "<section id=\"{name}\"><h2>{}</h2>\n<p class=\"quiet\">Original: {}. \
         <code>varve lab run {name} --seed {} --scale {}</code>, {:.0} s.</p>\n",
        escaped(experiment.title),
        escaped(experiment.source),
        chapter.ask.seed,
        chapter.ask.scale,
        chapter.elapsed_s,
        name = experiment.name,
    )
    .expect("a string can grow");
    for plot in &outcome.plots {
        *page += &plot.part();
    }
    writeln!(
        page,
        "<table><thead><tr><th>{}</th><th>original</th><th>of</th><th>ours</th><th>off</th><th>tolerance</th>\
         <th>verdict</th></tr></thead><tbody>",
        escaped(outcome.unit)
    )
    .expect("a string can grow");
    for row in &outcome.rows {
        let original = row.original.map_or(String::new(), number);
        let off = row
            .off_per_cent
            .map_or(String::new(), |off| format!("{off:+.1} %"));
        let tolerance = row.tolerance_per_cent;
        let tolerance = tolerance.map_or(String::new(), |per_cent| format!("{per_cent} %"));
        let class = match row.verdict {
            Verdict::Reproduced => "reproduced",
            Verdict::Off => "off",
            Verdict::Beside | Verdict::Unjudged => "quiet",
        };
        writeln!(
            page,
            "<tr><td>{}</td><td>{original}</td><td>{}</td><td>{}</td><td>{off}</td><td>{tolerance}</td>\
             <td class=\"{class}\">{}</td></tr>",
            escaped(&row.what),
            row.original_of.map_or("", Origin::name),
            number(row.ours),
            row.verdict.name()
        )
        .expect("a string can grow");
    }
    *page += "</tbody></table>\n";
    for note in &outcome.notes {
        writeln!(page, "<p>{}</p>", escaped(note)).expect("a string can grow");
    }
    setups(page, outcome);
    *page += &parameters::links(&outcome.stated);
    *page += "</section>\n";
}

/// Sizes of the runs, each once, with the policies that had them.
fn setups(page: &mut String, outcome: &Outcome) {
    let mut setups: Vec<(String, Vec<&str>)> = Vec::new();
    for parameters in &outcome.parameters {
        let (line, name) = (parameters.line(), parameters.name());
        match setups.iter_mut().find(|(known, _)| *known == line) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => setups.push((line, vec![name])),
        }
    }
    if setups.is_empty() {
        return;
    }
    *page += "<ul class=\"quiet\">\n";
    for (line, names) in setups {
        writeln!(page, "<li>{}: {}</li>", names.join(", "), escaped(&line))
            .expect("a string can grow");
    }
    *page += "</ul>\n";
}

#[cfg(test)]
mod tests {
    use super::super::{Row, named};
    use super::*;

    /// The page says how many of its verdicts are by figures that were published.
    #[test]
    fn verdicts_are_told_by_whose_originals_are() {
        let against = || Row::against("x".to_owned(), 2.0, 2.0, 5.0);
        let rows = vec![
            against(),
            against().of(Origin::Theory),
            against().of(Origin::Theory),
            Row::beside("y".to_owned(), 1.0),
        ];
        let outcome = Outcome {
            unit: "",
            rows,
            notes: Vec::new(),
            parameters: Vec::new(),
            stated: Vec::new(),
            plots: Vec::new(),
        };
        let chapter = Chapter {
            experiment: named("waf-formula").expect("there is one"),
            ask: Ask { seed: 1, scale: 1 },
            outcome,
            elapsed_s: 0.0,
        };
        let page = page("varve", "1", &[chapter]);
        assert!(page.contains(
            "Of the 3 judged 1 have a document's figure as original, 0 an order that a document tells without \
             figures, 0 a simulation of the project's own, 2 a formula, 0 a target or limit of the project."
        ));
        assert_eq!(page.matches("<td>theory</td>").count(), 2);
    }
}
