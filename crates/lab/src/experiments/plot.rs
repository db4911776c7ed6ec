//! Pictures of figures, as SVG that follows the colours of the page it stands in.

use super::look::{self, LOOKS_MAX, Look, looks};
use super::outcome::number;
use super::scale::Scale;
use std::fmt::Write;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const BOTTOM: f64 = 56.0;
/// Where the legend begins, and the height of a row of it.
const LEGEND: f64 = 36.0;
const ROW: f64 = 14.0;
/// From the legend's last row to the top of the figures: the unit is told there.
const UNIT: f64 = 26.0;
/// Width of a letter, on average and generously; of an entry of the legend beside its name.
const LETTER: f64 = 6.6;
const ENTRY: f64 = 40.0;
/// Letters of a title at most: beside it stands where the figures came from.
const TITLE_MAX: usize = 64;
/// From the top of a bar to the middle of its marker.
const ABOVE: f64 = 7.0;

/// A picture: series over common places.
#[derive(Clone, PartialEq, Debug)]
pub struct Plot {
    title: String,
    /// What the figures are.
    unit: String,
    /// How it came about.
    note: String,
    over: Over,
    series: Vec<(String, Vec<f64>)>,
    /// Equal heights are equal ratios.
    is_log: bool,
}

#[derive(Clone, PartialEq, Debug)]
enum Over {
    /// Groups of bars, by name.
    Names(Vec<String>),
    /// Lines over numbers.
    Numbers {
        caption: String,
        at: Vec<f64>,
        /// Equal distances are equal ratios.
        is_log: bool,
    },
}

impl Plot {
    /// Bars side by side, a group for each name.
    ///
    /// # Panics
    /// If the title runs into the corner where it is told what it is of.
    #[must_use]
    pub fn bars(title: &str, unit: &str, names: Vec<String>) -> Self {
        Self::new(title, unit, Over::Names(names))
    }

    /// Lines over numbers, of which `caption` tells what they are.
    ///
    /// # Panics
    /// If the title runs into the corner where it is told what it is of.
    #[must_use]
    pub fn lines(title: &str, unit: &str, caption: &str, at: Vec<f64>) -> Self {
        let (caption, is_log) = (caption.to_owned(), false);
        let over = Over::Numbers {
            caption,
            at,
            is_log,
        };
        Self::new(title, unit, over)
    }

    /// Lines over numbers above 0, as far apart as their ratios tell.
    ///
    /// # Panics
    /// If the title runs into the corner where it is told what it is of.
    #[must_use]
    pub fn octaves(title: &str, unit: &str, caption: &str, at: Vec<f64>) -> Self {
        let (caption, is_log) = (caption.to_owned(), true);
        let over = Over::Numbers {
            caption,
            at,
            is_log,
        };
        Self::new(title, unit, over)
    }

    fn new(title: &str, unit: &str, over: Over) -> Self {
        let letters = title.chars().count();
        assert!(letters <= TITLE_MAX, "{title:?} runs into the corner");
        Self {
            title: title.to_owned(),
            unit: unit.to_owned(),
            note: String::new(),
            over,
            series: Vec::new(),
            is_log: false,
        }
    }

    /// The same with heights that tell ratios, for figures above 0 of several magnitudes.
    #[must_use]
    pub fn in_ratios(self) -> Self {
        Self {
            is_log: true,
            ..self
        }
    }

    /// Adds a series.
    ///
    /// # Panics
    /// If it has not a figure for each place, or there are more series than looks.
    pub fn series(&mut self, name: &str, figures: Vec<f64>) {
        let places = match &self.over {
            Over::Names(names) => names.len(),
            Over::Numbers { at, .. } => at.len(),
        };
        assert_eq!(figures.len(), places, "a figure for each place");
        assert!(self.series.len() < LOOKS_MAX, "a look for each series");
        self.series.push((name.to_owned(), figures));
    }

    /// Tells how the figures came about, in the picture's corner.
    pub(super) fn set_note(&mut self, note: &str) {
        note.clone_into(&mut self.note);
    }

    /// The picture on its own, colours included.
    #[must_use]
    pub fn file(&self) -> String {
        self.svg(&format!("<style>{}</style>", style()))
    }

    /// The picture as part of a page that has [`style`].
    pub(super) fn part(&self) -> String {
        self.svg("")
    }

    fn svg(&self, style: &str) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
             role=\"img\" class=\"plot\"><title>{}</title>{style}",
            escaped(&self.title)
        );
        text(&mut svg, (LEFT, 18.0), "title", &self.title);
        text(&mut svg, (WIDTH - RIGHT, 18.0), "note", &self.note);
        self.legend(&mut svg);
        let scale = self.scale();
        self.grid(&mut svg, &scale);
        match &self.over {
            Over::Names(names) => self.draw_bars(&mut svg, &scale, names),
            Over::Numbers {
                caption,
                at,
                is_log,
            } => self.draw_lines(&mut svg, &scale, caption, (at, *is_log)),
        }
        svg + "</svg>\n"
    }

    /// Each series, and how it looks.
    fn series_with_looks(&self) -> impl Iterator<Item = (Look, &str, &[f64])> {
        let looks = looks(self.series.iter().map(|(name, _)| name.as_str()));
        let series = self.series.iter().zip(looks);
        series.map(|((name, figures), look)| (look, name.as_str(), figures.as_slice()))
    }

    /// Entries of a row of the legend: as many as have room for the longest name.
    fn legend_row(&self) -> usize {
        let names = self.series.iter().map(|(name, _)| name.chars().count());
        let width = names.max().unwrap_or(0) as f64 * LETTER + ENTRY;
        (((WIDTH - LEFT - RIGHT) / width) as usize).clamp(1, LOOKS_MAX)
    }

    fn legend(&self, svg: &mut String) {
        let in_row = self.legend_row();
        let width = (WIDTH - LEFT - RIGHT) / in_row as f64;
        for (at, (look, name, _)) in self.series_with_looks().enumerate() {
            let (column, row) = (at % in_row, at / in_row);
            let (x, y) = (LEFT + column as f64 * width, LEGEND + row as f64 * ROW);
            look.begin(svg);
            match self.over {
                Over::Names(_) => {
                    put(
                        svg,
                        format_args!(
                            "<rect class=\"bar\" x=\"{x}\" y=\"{}\" width=\"8\" height=\"9\"/>",
                            y - 9.0
                        ),
                    );
                    look.mark(svg, (x + 17.0, y - 4.0));
                }
                Over::Numbers { .. } => {
                    let line = format_args!("<path class=\"line\" d=\"M{x} {}h22\"/>", y - 4.0);
                    put(svg, line);
                    look.mark(svg, (x + 11.0, y - 4.0));
                }
            }
            *svg += "</g>";
            text(svg, (x + 26.0, y), "legend", name);
        }
    }

    fn scale(&self) -> Scale {
        let figures = self.series.iter().flat_map(|(_, figures)| figures).copied();
        let rows = self.series.len().div_ceil(self.legend_row()).max(1);
        let top = LEGEND + (rows - 1) as f64 * ROW + UNIT;
        Scale::new(figures, self.is_log, (HEIGHT - BOTTOM, top))
    }

    fn grid(&self, svg: &mut String, scale: &Scale) {
        for tick in scale.ticks() {
            let y = scale.y(tick);
            put(
                svg,
                format_args!(
                    "<path class=\"grid\" d=\"M{LEFT} {y:.1}H{}\"/>",
                    WIDTH - RIGHT
                ),
            );
            text(svg, (LEFT - 6.0, y + 4.0), "tick", &short(tick));
        }
        text(svg, (LEFT, scale.top() - 8.0), "unit", &self.unit);
    }

    fn draw_bars(&self, svg: &mut String, scale: &Scale, names: &[String]) {
        let group = (WIDTH - LEFT - RIGHT) / names.len() as f64;
        let bar = group * 0.8 / self.series.len().max(1) as f64;
        for (at, name) in names.iter().enumerate() {
            let middle = LEFT + (at as f64 + 0.5) * group;
            for (line, part) in lines_of(name, group).iter().enumerate() {
                let y = HEIGHT - BOTTOM + 18.0 + line as f64 * ROW;
                text(svg, (middle, y), "name", part);
            }
            for (index, (look, _, figures)) in self.series_with_looks().enumerate() {
                let x = middle - group * 0.4 + index as f64 * bar;
                let (y, width) = (scale.y(figures[at]), (bar - 2.0).max(1.0));
                look.begin(svg);
                put(
                    svg,
                    format_args!(
                        "<rect class=\"bar\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
                         height=\"{:.1}\"><title>{}</title></rect>",
                        HEIGHT - BOTTOM - y,
                        number(figures[at])
                    ),
                );
                look.mark(svg, (x + width / 2.0, y - ABOVE));
                *svg += "</g>";
            }
        }
    }

    fn draw_lines(
        &self,
        svg: &mut String,
        scale: &Scale,
        caption: &str,
        (at, is_log): (&[f64], bool),
    ) {
        let along = |place: f64| if is_log { place.ln() } else { place };
        let (first, last) = (along(at[0]), along(at[at.len() - 1]));
        let x = |place| LEFT + (along(place) - first) / (last - first) * (WIDTH - LEFT - RIGHT);
        for place in at {
            text(
                svg,
                (x(*place), HEIGHT - BOTTOM + 18.0),
                "name",
                &short(*place),
            );
        }
        text(
            svg,
            (f64::midpoint(LEFT, WIDTH - RIGHT), HEIGHT - 14.0),
            "name",
            caption,
        );
        for (look, _, figures) in self.series_with_looks() {
            let points = at.iter().zip(figures);
            let points: Vec<_> = points
                .map(|(at, figure)| (x(*at), scale.y(*figure)))
                .collect();
            let path: Vec<_> = points
                .iter()
                .map(|(x, y)| format!("{x:.1} {y:.1}"))
                .collect();
            look.begin(svg);
            put(
                svg,
                format_args!("<path class=\"line\" d=\"M{}\"/>", path.join("L")),
            );
            points.iter().for_each(|point| look.mark(svg, *point));
            *svg += "</g>";
        }
    }
}

/// How pictures look on light and dark pages, and on paper.
pub(super) fn style() -> String {
    ".plot{font:12px system-ui,sans-serif;color:#1b1f24;max-width:100%}\
        .plot text{fill:currentColor}.plot .title{font-weight:600;font-size:14px}\
        .plot .tick,.plot .note{text-anchor:end}.plot .note{font-size:10px;opacity:.7}.plot .name{text-anchor:middle}.plot .unit{font-style:italic}\
        .plot .grid{stroke:currentColor;stroke-opacity:.2}\
        @media (prefers-color-scheme:dark){.plot{color:#e6e6e6}}\
        @media print{.plot{color:#000}}"
        .to_owned()
        + &look::style()
}

/// A name in two lines, if it has a comma and does not fit so many pixels.
fn lines_of(name: &str, width: f64) -> Vec<&str> {
    match name.split_once(", ") {
        Some((first, second)) if name.chars().count() as f64 * LETTER > width => {
            vec![first, second]
        }
        _ => vec![name],
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), class: &str, text: &str) {
    put(
        svg,
        format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>",
            escaped(text)
        ),
    );
}

pub(super) fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    svg.write_fmt(what).expect("a string can grow");
}

/// A place on an axis: no digits that say nothing.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Text as a page may hold it.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_drawn_and_text_is_escaped() {
        let mut plot = Plot::bars("a < b", "waf", vec!["x".to_owned(), "y & z".to_owned()]);
        plot.series("one", vec![1.0, 2.0]);
        plot.series("two", vec![3.0, 4.0]);
        let svg = plot.file();
        assert_eq!(svg.matches("<rect class=\"bar").count(), 2 + 4);
        assert_eq!(svg.matches("class=\"mark").count(), 2 + 4);
        assert!(svg.contains("a &lt; b") && svg.contains("y &amp; z"));
        let mut plot = Plot::lines("t", "waf", "over", vec![1.0, 2.0, 4.0]);
        plot.series("one", vec![1.0, 2.0, 3.0]);
        assert_eq!(plot.file().matches("class=\"line").count(), 1 + 1);
        assert_eq!(plot.file().matches("class=\"mark").count(), 1 + 3);
    }

    /// A legend of long names has fewer columns and more rows, and the figures begin below it.
    #[test]
    fn names_have_room() {
        let top = |name: &str| {
            let mut plot = Plot::bars("t", "u", vec!["x".to_owned()]);
            for at in 0..6 {
                plot.series(&format!("{name} {at}"), vec![1.0]);
            }
            (plot.legend_row(), plot.scale().top())
        };
        assert_eq!(top("ab"), (9, 62.0));
        assert_eq!(top("csal-today, zipf:0.99"), (3, 76.0));
        assert_eq!(top(&"long".repeat(40)), (1, 132.0));
        assert_eq!(
            lines_of("half writes, 64 KiB", 108.0),
            ["half writes", "64 KiB"]
        );
        assert_eq!(lines_of("uniform, 4 KiB", 108.0), ["uniform, 4 KiB"]);
    }

    #[test]
    #[should_panic(expected = "a figure for each place")]
    fn a_series_has_a_figure_for_each_place() {
        Plot::bars("t", "u", vec!["x".to_owned()]).series("one", Vec::new());
    }
}
