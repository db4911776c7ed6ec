//! Between the label as the pool thinks of it and the label on media.

use crate::label::generation::TableGeneration;
use crate::label::member::{Member, MemberId, MemberState, Role};
use crate::label::state::{Label, LabelState, Owner, PoolId};
use crate::label::table::MemberTable;
use alloc::vec::Vec;
use varve_format as format;
use varve_io::Sectors;

/// The sectors of one copy.
pub(crate) fn encode(label: &Label, sequence: u64) -> Sectors {
    let state = &label.state;
    let raw = format::Label {
        pool: state.pool.0,
        name: state.name,
        copy_sequence: sequence,
        generation: state.generation.bits(),
        epoch: state.epoch,
        drive: label.own.0,
        owner: state.owner.0,
        heartbeat: state.heartbeat,
        is_clean: state.clean,
        is_unfinished: state.unfinished,
        geometry: state.geometry,
        members: state.members.members().iter().map(encode_member).collect(),
    };
    raw.encode()
}

/// The label in these bytes and its sequence. Torn, damaged, foreign or contradictory bytes are no
/// label: the other copy stands.
pub(crate) fn decode(bytes: &[u8]) -> Option<(Label, u64)> {
    let raw = format::Label::decode(bytes).ok()?;
    let members: Option<Vec<Member>> = raw.members.iter().map(decode_member).collect();
    let generation = TableGeneration::from_bits(raw.generation);
    let members = members?;
    let is_ordered = members.iter().all(|member| member.since <= generation);
    // The next write must find a higher sequence number.
    let is_last = raw.copy_sequence == u64::MAX;
    if !is_ordered || generation.epoch() > raw.epoch || is_last {
        return None;
    }
    let state = LabelState {
        pool: PoolId(raw.pool),
        name: raw.name,
        generation,
        epoch: raw.epoch,
        owner: Owner(raw.owner),
        heartbeat: raw.heartbeat,
        clean: raw.is_clean,
        unfinished: raw.is_unfinished,
        geometry: raw.geometry,
        members: MemberTable::new(members).ok()?,
    };
    Some((
        Label {
            own: MemberId(raw.drive),
            state,
        },
        raw.copy_sequence,
    ))
}

fn encode_member(member: &Member) -> format::Member {
    format::Member {
        id: member.id.0,
        role: match member.role {
            Role::Fast => format::MemberRole::Fast,
            Role::Dense => format::MemberRole::Dense,
        },
        state: match member.state {
            MemberState::Active => format::MemberState::Active,
            MemberState::Lost => format::MemberState::Failed,
            MemberState::Rebuilding => format::MemberState::Rebuilding,
            MemberState::Removed => format::MemberState::Removed,
        },
        slot: member.slot,
        held_all: member.held_all,
        size_bytes: member.size_bytes,
        since: member.since.bits(),
    }
}

fn decode_member(raw: &format::Member) -> Option<Member> {
    let role = match raw.role {
        format::MemberRole::Fast => Role::Fast,
        format::MemberRole::Dense => Role::Dense,
        // No pool of this code has one, so it is not a label this code may act upon.
        format::MemberRole::Spare => return None,
    };
    let state = match raw.state {
        format::MemberState::Active => MemberState::Active,
        format::MemberState::Failed => MemberState::Lost,
        format::MemberState::Rebuilding => MemberState::Rebuilding,
        format::MemberState::Removed => MemberState::Removed,
    };
    Some(Member {
        id: MemberId(raw.id),
        role,
        slot: raw.slot,
        state,
        held_all: raw.held_all,
        size_bytes: raw.size_bytes,
        since: TableGeneration::from_bits(raw.since),
    })
}
