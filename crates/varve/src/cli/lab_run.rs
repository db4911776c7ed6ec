//! `varve lab list`, `varve lab run`, `varve lab all`.

use super::lab::{BUG, now};
use super::lab_jobs::run_all;
use super::{Exit, complain};
use crate::envelope;
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use varve_lab::experiments::{
    Ask, Chapter, EXPERIMENTS, Experiment, JobError, Outcome, Verdict, named, page, parameters,
    quick,
};

/// Options of `varve lab list`.
#[derive(Args)]
pub(crate) struct ListOptions {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options that all experiments take.
#[derive(Args)]
struct Common {
    /// Seed of all places
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Divide all sizes by this; ratios stay. An experiment is run no smaller than its figures bear, which is told, unless
    /// --rough is given
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    scale: u32,
    /// Run as small as --scale says, although figures of smaller drives are others
    #[arg(long)]
    rough: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Options of `varve lab run`.
#[derive(Args)]
pub(crate) struct RunOptions {
    /// Name of the experiment, as `varve lab list` shows it
    name: String,
    #[command(flatten)]
    common: Common,
    /// Write the picture there, as SVG; a second and third one, where there are, to FILE-2.svg and FILE-3.svg beside it
    #[arg(long, value_name = "FILE.svg", value_parser = parse_svg)]
    plot: Option<PathBuf>,
}

/// Options of `varve lab all`.
#[derive(Args)]
pub(crate) struct AllOptions {
    #[command(flatten)]
    common: Common,
    /// Only experiments that tell something in minutes at a fraction of their size, each at a scale of its
    /// own: what is run on every change
    #[arg(long, conflicts_with_all = ["scale", "rough"])]
    quick: bool,
    /// Write a page that needs nothing else to this directory, as index.html
    #[arg(long, value_name = "DIR")]
    html: Option<PathBuf>,
}

/// An experiment in a list.
#[derive(Serialize)]
struct Listed {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    /// `lab run --plot` makes a picture of it.
    is_drawn: bool,
    /// Largest scale that it is run at.
    scale_max: u32,
}

/// All experiments.
#[derive(Serialize)]
struct List {
    experiments: Vec<Listed>,
}

/// An experiment that was run.
#[derive(Serialize)]
struct Ran<'a> {
    name: &'static str,
    title: &'static str,
    source: &'static str,
    seed: u64,
    scale: u32,
    #[serde(flatten)]
    outcome: &'a Outcome,
    elapsed_s: f64,
}

/// Several.
#[derive(Serialize)]
struct AllRan<'a> {
    experiments: Vec<Ran<'a>>,
    elapsed_s: f64,
}

impl ListOptions {
    /// Prints what there is.
    pub(crate) fn run(&self) -> Exit {
        let of = |experiment: &Experiment| Listed {
            name: experiment.name,
            title: experiment.title,
            source: experiment.source,
            is_drawn: experiment.is_drawn,
            scale_max: experiment.scale_max,
        };
        let experiments = EXPERIMENTS.map(of).into();
        if self.json {
            print!("{}", envelope::json("LabList", &List { experiments }));
        } else {
            for listed in experiments {
                let picture = match listed.is_drawn {
                    true => "; a picture with --plot",
                    false => "",
                };
                println!(
                    "{:<16} {}\n{:16} {}{picture}",
                    listed.name, listed.title, "", listed.source
                );
            }
        }
        Exit::Ok
    }
}

impl Common {
    /// What an experiment is run with. If that is another scale than was asked for it is said.
    fn ask(&self, experiment: &Experiment) -> Ask {
        let asked = Ask {
            seed: self.seed,
            scale: self.scale,
        };
        let bounded = experiment.bounded(asked);
        if self.rough || bounded == asked {
            return asked;
        }
        let (name, scale) = (experiment.name, bounded.scale);
        eprintln!(
            "{name}: run at --scale {scale}; its figures are others on smaller drives (--rough runs it there)"
        );
        bounded
    }
}

impl RunOptions {
    /// Runs one experiment and prints what it came to.
    pub(crate) fn run(&self) -> Exit {
        let Some(experiment) = named(&self.name) else {
            complain(
                "no-experiment",
                &format!("there is no experiment {:?}", self.name),
                "varve lab list",
            );
            return Exit::NotFound;
        };
        if let Some(path) = &self.plot {
            if !experiment.is_drawn {
                let what = format!("{} has no picture", experiment.name);
                complain(
                    "no-picture",
                    &what,
                    "leave --plot out; varve lab list tells which have one",
                );
                return Exit::Usage;
            }
            if let Err(exit) = can_write(path) {
                return exit;
            }
        }
        let ask = self.common.ask(experiment);
        let chapters = match run_all(&[(experiment, ask)]) {
            Ok(chapters) => chapters,
            Err(error) => return refused(&error),
        };
        let chapter = &chapters[0];
        if let Some(path) = &self.plot
            && let Err(exit) = draw(path, &chapter.outcome)
        {
            return exit;
        }
        if self.common.json {
            print!("{}", envelope::json("LabRun", &ran(chapter)));
        } else {
            print!("{}", chapter.outcome.table());
            print!("{}", parameters(&chapters));
        }
        verdict(&chapters)
    }
}

impl AllOptions {
    /// Runs all experiments.
    pub(crate) fn run(&self) -> Exit {
        let begun = now();
        let Common { seed, scale, .. } = self.common;
        let (asked, size): (Vec<_>, _) = if self.quick {
            (quick(seed).collect(), "--quick".to_owned())
        } else {
            let of = |experiment| (experiment, self.common.ask(experiment));
            let rough = if self.common.rough { " --rough" } else { "" };
            (
                EXPERIMENTS.map(of).into(),
                format!("--scale {scale}{rough}"),
            )
        };
        let file = match self.html.as_deref().map(page_in).transpose() {
            Ok(file) => file,
            Err(exit) => return exit,
        };
        let chapters = match run_all(&asked) {
            Ok(chapters) => chapters,
            Err(error) => return refused(&error),
        };
        if let Some(file) = file {
            let command = format!("varve lab all --seed {seed} {size} --html DIR");
            let text = page(&command, env!("CARGO_PKG_VERSION"), &chapters);
            if let Err(exit) = write(&file, &text) {
                return exit;
            }
        }
        if self.common.json {
            let all = AllRan {
                experiments: chapters.iter().map(ran).collect(),
                elapsed_s: (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0,
            };
            print!("{}", envelope::json("LabAll", &all));
        } else {
            for chapter in &chapters {
                println!("{}", chapter.experiment.title);
                println!("{}", chapter.outcome.table());
            }
            print!("{}", parameters(&chapters));
        }
        verdict(&chapters)
    }
}

fn ran<'a>(chapter: &'a Chapter<'_>) -> Ran<'a> {
    Ran {
        name: chapter.experiment.name,
        title: chapter.experiment.title,
        source: chapter.experiment.source,
        seed: chapter.ask.seed,
        scale: chapter.ask.scale,
        outcome: &chapter.outcome,
        elapsed_s: chapter.elapsed_s,
    }
}

/// A figure outside its tolerance is told in the table and by the exit code.
fn verdict(chapters: &[Chapter<'_>]) -> Exit {
    let off: usize = chapters
        .iter()
        .map(|chapter| chapter.outcome.count(Verdict::Off))
        .sum();
    if off == 0 { Exit::Ok } else { Exit::Degraded }
}

fn refused(error: &JobError) -> Exit {
    if error.is_of_engine() {
        complain("engine", &error.to_string(), BUG);
        return Exit::Failed;
    }
    complain("bad-scale", &error.to_string(), "give a smaller --scale");
    Exit::Usage
}

/// The page's file in a directory that is made if it is not there.
fn page_in(directory: &Path) -> Result<PathBuf, Exit> {
    std::fs::create_dir_all(directory).map_err(|error| {
        let what = format!("{} cannot be made: {error}", directory.display());
        complain("unwritable", &what, "name a directory that can be written");
        Exit::Refused
    })?;
    let file = directory.join("index.html");
    can_write(&file)?;
    Ok(file)
}

/// Asks before the minutes that a run takes, and leaves what is there as it is; nothing, if nothing was.
fn can_write(path: &Path) -> Result<(), Exit> {
    let made = std::fs::File::create_new(path).and_then(|file| {
        drop(file);
        std::fs::remove_file(path)
    });
    let asked = match made {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let opened = std::fs::File::options().append(true).open(path);
            opened.map(drop)
        }
        other => other,
    };
    asked.map_err(|error| {
        unwritable(path, &error);
        Exit::Refused
    })
}

/// Pictures are SVG, whatever a name says of them.
fn parse_svg(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match path.extension() {
        Some(extension) if extension == "svg" => Ok(path),
        _ => Err("pictures are SVG: a name that ends in .svg".to_owned()),
    }
}

/// Where a picture of this number goes, beside the first.
fn beside(path: &Path, number: usize) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}.svg"));
    path.with_file_name(name)
}

/// Writes all pictures, and tells of those that were not named.
fn draw(path: &Path, outcome: &Outcome) -> Result<(), Exit> {
    for (at, plot) in outcome.plots.iter().enumerate() {
        if at == 0 {
            write(path, &plot.file())?;
            continue;
        }
        let beside = beside(path, at + 1);
        write(&beside, &plot.file())?;
        eprintln!("note:  another picture is in {}", beside.display());
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Exit> {
    std::fs::write(path, text).map_err(|error| {
        unwritable(path, &error);
        Exit::Failed
    })
}

fn unwritable(path: &Path, error: &std::io::Error) {
    let what = format!("{} cannot be written: {error}", path.display());
    complain(
        "unwritable",
        &what,
        "name a file in a directory that can be written",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A second picture lies beside the first, whose name says what it is.
    #[test]
    fn pictures_lie_beside_one_another() {
        for (first, second) in [("a.svg", "a-2.svg"), ("/x/a.b.svg", "/x/a.b-2.svg")] {
            let first = parse_svg(first).expect("a picture");
            assert_eq!(beside(&first, 2), Path::new(second));
        }
        for other in ["p.png", "svg", ".svg", "a"] {
            assert!(parse_svg(other).is_err(), "{other}");
        }
    }
}
