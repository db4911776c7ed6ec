//! Options that change nothing in a model.

/// An option that is accepted and does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ignored {
    /// Its name.
    pub option: &'static str,
    /// Why it changes nothing.
    pub reason: &'static str,
}

const ENGINE: &str = "how I/O reaches a drive is the experiment's";
const PLACE: &str = "what is worked on is the experiment's";
const HOST: &str = "host processors and memory are not modelled";
const FILE: &str = "there are no files to make, open or remove";
const CACHE: &str = "there is no page cache";
const CONTENT: &str = "blocks have no content that matters";
const REPORT: &str = "reports are the experiment's";
const SEED: &str = "a run repeats from its seed";
const FAILURE: &str = "no I/O of a load fails";

const fn ignored(option: &'static str, reason: &'static str) -> Ignored {
    Ignored { option, reason }
}

/// All of them.
pub const IGNORED: &[Ignored] = &[
    ignored("ioengine", ENGINE),
    ignored("spdk_json_conf", ENGINE),
    ignored("spdk_core_mask", ENGINE),
    ignored("hipri", ENGINE),
    ignored("fixedbufs", ENGINE),
    ignored("registerfiles", ENGINE),
    ignored("sqthread_poll", ENGINE),
    ignored("sqthread_poll_cpu", ENGINE),
    ignored("nonvectored", ENGINE),
    ignored("userspace_reap", ENGINE),
    ignored("filename", PLACE),
    ignored("directory", PLACE),
    ignored("allow_mounted_write", PLACE),
    ignored("thread", HOST),
    ignored("cpus_allowed", HOST),
    ignored("cpus_allowed_policy", HOST),
    ignored("cpumask", HOST),
    ignored("numa_cpu_nodes", HOST),
    ignored("numa_mem_policy", HOST),
    ignored("nice", HOST),
    ignored("prio", HOST),
    ignored("prioclass", HOST),
    ignored("iomem", HOST),
    ignored("mem", HOST),
    ignored("iomem_align", HOST),
    ignored("mem_align", HOST),
    ignored("hugepage-size", HOST),
    ignored("lockmem", HOST),
    ignored("clocksource", HOST),
    ignored("gtod_cpu", HOST),
    ignored("gtod_reduce", HOST),
    ignored("fallocate", FILE),
    ignored("unlink", FILE),
    ignored("create_serialize", FILE),
    ignored("create_fsync", FILE),
    ignored("allow_file_create", FILE),
    ignored("direct", CACHE),
    ignored("buffered", CACHE),
    ignored("invalidate", CACHE),
    ignored("fadvise_hint", CACHE),
    ignored("zero_buffers", CONTENT),
    ignored("refill_buffers", CONTENT),
    ignored("scramble_buffers", CONTENT),
    ignored("buffer_pattern", CONTENT),
    ignored("description", REPORT),
    ignored("new_group", REPORT),
    ignored("unified_rw_reporting", REPORT),
    ignored("per_job_logs", REPORT),
    ignored("write_bw_log", REPORT),
    ignored("write_lat_log", REPORT),
    ignored("write_iops_log", REPORT),
    ignored("write_hist_log", REPORT),
    ignored("log_avg_msec", REPORT),
    ignored("log_hist_msec", REPORT),
    ignored("log_hist_coarseness", REPORT),
    ignored("log_entries", REPORT),
    ignored("log_max_value", REPORT),
    ignored("log_window_value", REPORT),
    ignored("log_offset", REPORT),
    ignored("log_prio", REPORT),
    ignored("log_compression", REPORT),
    ignored("log_compression_cpus", REPORT),
    ignored("log_store_compressed", REPORT),
    ignored("log_unix_epoch", REPORT),
    ignored("disable_lat", REPORT),
    ignored("disable_clat", REPORT),
    ignored("disable_slat", REPORT),
    ignored("disable_bw", REPORT),
    ignored("disable_bw_measurement", REPORT),
    ignored("slat_percentiles", REPORT),
    ignored("clat_percentiles", REPORT),
    ignored("lat_percentiles", REPORT),
    ignored("percentile_list", REPORT),
    ignored("significant_figures", REPORT),
    ignored("bwavgtime", REPORT),
    ignored("iopsavgtime", REPORT),
    ignored("disk_util", REPORT),
    ignored("stats", REPORT),
    ignored("randrepeat", SEED),
    ignored("allrandrepeat", SEED),
    ignored("random_generator", SEED),
    ignored("softrandommap", SEED),
    ignored("continue_on_error", FAILURE),
    ignored("ignore_error", FAILURE),
    ignored("exitall_on_error", FAILURE),
    ignored("error_dump", FAILURE),
];

/// The option, if it is one of them.
pub(super) fn find(option: &str) -> Option<Ignored> {
    let mut all = IGNORED.iter().copied();
    all.find(|ignored| ignored.option == option)
}
