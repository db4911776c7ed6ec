//! The frame around what goes over the socket and what commands print.

use crate::failure::{Exit, Failure};
use crate::request::{Reply, SCHEMA_VERSION};
use serde::{Deserialize, Serialize};

/// Something that tells its kind itself, with the version it is written in.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Document<T> {
    /// Version of the form.
    pub schema_version: u32,
    /// What it is about.
    #[serde(flatten)]
    pub body: T,
}

impl<T> Document<T> {
    /// A document of this version.
    pub const fn new(body: T) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            body,
        }
    }
}

/// A failure that tells its kind, as replies do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind")]
pub enum Failed {
    /// It failed.
    Failure(Failure),
}

/// The document of an outcome, as JSON with a line end, and the HTTP status that goes with it.
pub(crate) fn of_outcome(outcome: &Result<Reply, Failure>) -> (u16, String) {
    let (status, text) = match outcome {
        Ok(reply) => (200, serde_json::to_string_pretty(&Document::new(reply))),
        Err(failure) => {
            let failed = Failed::Failure(failure.clone());
            let text = serde_json::to_string_pretty(&Document::new(failed));
            (status(failure.exit), text)
        }
    };
    (status, text.expect("named fields only") + "\n")
}

const fn status(exit: Exit) -> u16 {
    match exit {
        Exit::Ok => 200,
        Exit::Usage => 400,
        Exit::NotFound => 404,
        Exit::Conflict => 409,
        Exit::Refused => 422,
        Exit::Failed
        | Exit::Degraded
        | Exit::StillRunning
        | Exit::HungUp
        | Exit::Interrupted
        | Exit::Terminated => 500,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Request;

    fn goes_over<T>(what: &T)
    where
        T: Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
    {
        let text = serde_json::to_string(&Document::new(what)).unwrap();
        assert!(
            text.starts_with("{\"schema_version\":1,\"kind\":"),
            "{text}"
        );
        let back: Document<T> = serde_json::from_str(&text).unwrap();
        assert_eq!(back.body, *what);
    }

    #[test]
    fn what_is_asked_and_answered_is_the_same_on_the_other_side() {
        goes_over(&Request::PoolList);
        goes_over(&Request::VolumeList { pool: None });
        goes_over(&Request::VolumeResize {
            pool: "p".to_owned(),
            volume: "v".to_owned(),
            bytes: u64::MAX,
            shrink: true,
        });
        let fast = ["/a:1g", "/b"].map(|text| text.parse().unwrap());
        goes_over(&Request::PoolCreate(crate::CreatePool {
            pool: "p".to_owned(),
            fast: fast.to_vec(),
            dense: Vec::new(),
            protect: Some(crate::Protect::Parity { data: 4 }),
            over_provision: Some(30),
            dense_model: None,
            overwrite: false,
            dry_run: true,
        }));
        goes_over(&Reply::PoolList { pools: Vec::new() });
        goes_over(&Reply::PoolCheck(crate::CheckView::default()));
        let job = crate::jobs::Jobs::default();
        let number = job.begin("replace-drive", "p", "fast0", varve_units::Nanos(0));
        let view = job.get(number, varve_units::Nanos(1)).unwrap();
        goes_over(&Reply::Job(view));
        let failure = Failure::from(crate::ControlError::NoPool("p".to_owned()));
        goes_over(&Failed::Failure(failure.clone()));
        assert_eq!(of_outcome(&Err(failure)).0, 404);
    }
}
