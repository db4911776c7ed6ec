//! Sheets of zoned drives.

use crate::sheet::{Capacity, Number, Published};
use alloc::string::String;
use serde::Deserialize;

/// All numbers of a zoned drive.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedSheet {
    /// What the drive is called.
    pub name: String,
    /// What it can hold.
    pub capacity: Capacity,
    /// How it is divided.
    pub zones: ZonesOf,
    /// What its controller and its link to the host can do.
    pub controller: ZonedController,
    /// What managing zones takes.
    pub management: Management,
    /// How fast its flash is.
    pub nand: ZonedNand,
    /// What its vendor, or a document, says it does.
    pub published: Published,
}

/// How a zoned drive is divided.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonesOf {
    /// Zones.
    pub count: Number<u32>,
    /// From the start of a zone to the start of the next.
    pub size_bytes: Number<u64>,
    /// What of it can be written.
    pub capacity_bytes: Number<u64>,
    /// Zones that may be open at once.
    pub open_max: Number<u32>,
    /// Zones that may be open or closed at once.
    pub active_max: Number<u32>,
}

/// What a zoned drive's controller and its link to the host can do.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedController {
    /// Bytes a second to the host.
    pub link_read_bytes: Number<u64>,
    /// Bytes a second from the host.
    pub link_write_bytes: Number<u64>,
    /// Bytes a second from the buffer toward flash, and of padding.
    pub program_bytes: Number<u64>,
    /// Commands a second, one after another.
    pub read_commands: Number<u64>,
    /// Commands a second, one after another.
    pub write_commands: Number<u64>,
    /// Commands a second, one after another.
    pub append_commands: Number<u64>,
    /// Firmware's part of a read's latency.
    pub read_ns: Number<u64>,
    /// Firmware's part of a write's latency.
    pub write_ns: Number<u64>,
    /// Firmware's part of an append's latency.
    pub append_ns: Number<u64>,
    /// Data that are on their way to flash.
    pub buffer_bytes: Number<u64>,
}

/// What managing zones takes.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Management {
    /// Opening a zone by command.
    pub open_ns: Number<u64>,
    /// What a write takes longer that opens its zone.
    pub open_by_write_ns: Number<u64>,
    /// What an append takes longer that opens its zone.
    pub open_by_append_ns: Number<u64>,
    /// Closing a zone.
    pub close_ns: Number<u64>,
    /// Ending a zone that is not full, without what padding takes.
    pub finish_ns: Number<u64>,
    /// Resetting an empty zone.
    pub reset_ns: Number<u64>,
    /// What resetting a full zone takes longer; a part of it by how full the zone is.
    pub reset_full_ns: Number<u64>,
}

/// How fast a zoned drive's flash is.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZonedNand {
    /// Dies.
    pub dies: Number<u32>,
    /// Planes of a die; they work together.
    pub planes: Number<u32>,
    /// Bytes of a flash page.
    pub page_bytes: Number<u32>,
    /// Flash pages of a plane that are programmed at once, one for each bit of a cell.
    pub pages_at_once: Number<u32>,
    /// Sensing one flash page.
    pub read_ns: Number<u64>,
    /// Programming `pages_at_once` in all planes of a die.
    pub program_ns: Number<u64>,
    /// Interrupting a program, and going on with it, each.
    pub suspend_ns: Number<u64>,
    /// How often one program may be interrupted.
    pub suspends_max: Number<u32>,
    /// Channels between controller and dies.
    pub channels: Number<u32>,
    /// Bytes a second of a channel.
    pub channel_bytes: Number<u64>,
}
