//! Fabrics commands: Connect and properties (spec: base 2.0 §6).

use crate::admin::{Need, Outcome, Reply};
use crate::connection::{Connection, QUEUE_ENTRIES_MIN, Queue};
use crate::controller::{CAPABILITIES, Change, Controller, Host};
use crate::shared::{Effect, Shared};
use crate::slots::{State, Work};
use crate::{Operation, QUEUE_ENTRIES_MAX};
use alloc::boxed::Box;
use varve_nvme::fabrics::{
    CNTLID_DYNAMIC, Connect, ConnectData, FabricsType, InvalidParameter, PropertyAccess,
};
use varve_nvme::identify::ControllerKind;
use varve_nvme::property::{self, Configuration};
use varve_nvme::{Nqn, Sqe, Status, opcode};
use varve_units::Nanos;
use zerocopy::FromBytes;

/// Offsets of parameters of Connect, in its SQE and its data.
mod offset {
    pub const QID: u16 = 42;
    pub const SQSIZE: u16 = 44;
    pub const HOSTID: u16 = 0;
    pub const CNTLID: u16 = 16;
    pub const SUBNQN: u16 = 256;
    pub const HOSTNQN: u16 = 512;
}

fn in_sqe(offset: u16) -> Reply {
    invalid(offset, false)
}

fn in_data(offset: u16) -> Reply {
    invalid(offset, true)
}

fn invalid(offset: u16, is_data: bool) -> Reply {
    Reply {
        status: Status::ConnectInvalid,
        result: InvalidParameter { offset, is_data }.result(),
        may_retry: false,
    }
}

/// Before Connect nothing else may come.
pub(crate) fn need_unconnected(sqe: &Sqe) -> Result<Need, Reply> {
    let is_connect =
        sqe.opcode == opcode::FABRICS && FabricsType::of(sqe) == Some(FabricsType::Connect);
    if !is_connect {
        return Err(Status::SequenceError.into());
    }
    Ok(Need::FromHost(size_of::<ConnectData>() as u32))
}

/// After Connect, properties on the admin queue.
pub(crate) fn need_connected(qid: u16, sqe: &Sqe) -> Result<Need, Reply> {
    match FabricsType::of(sqe) {
        Some(FabricsType::Connect) => Err(Status::SequenceError.into()),
        Some(_) if qid == 0 => Ok(Need::None),
        Some(_) => Err(Status::InvalidQueueType.into()),
        None => Err(Status::InvalidField.into()),
    }
}

/// Connect, its data here.
pub(crate) fn connect<D: AsRef<[u8]>>(
    connection: &mut Connection<D>,
    shared: &mut Shared,
    now: Nanos,
    sqe: &Sqe,
    data: &[u8],
) -> Result<Outcome, Reply> {
    let data = ConnectData::read_from_bytes(data).map_err(|_| Status::InvalidField)?;
    let connect = Connect::from_sqe(sqe);
    if connect.recfmt != 0 {
        return Err(Status::ConnectIncompatible.into());
    }
    let sizes = QUEUE_ENTRIES_MIN - 1..=QUEUE_ENTRIES_MAX - 1;
    if !sizes.contains(&connect.sqsize) {
        return Err(in_sqe(offset::SQSIZE));
    }
    if connect.qid > 0 {
        // Answered when nothing of an earlier association is left at the backend.
        connection.insert(sqe, 0, State::Connecting(Box::new(data)));
        shared.effects.push_back(Effect::Connect(connection.id));
        return Ok(Outcome::Pending);
    }
    let (kind, host) = check_names(shared, &data)?;
    if data.cntlid.get() != CNTLID_DYNAMIC {
        return Err(in_data(offset::CNTLID));
    }
    let cntlid = shared.new_cntlid(kind).ok_or(Status::ConnectBusy)?;
    let controller = Controller::new(cntlid, kind, host, connection.id, now, connect.kato_ms);
    shared.controllers.insert(cntlid, controller);
    open(connection, connect, cntlid);
    Ok(Outcome::Reply(u64::from(cntlid)))
}

/// The subsystem and host that Connect names.
fn check_names(shared: &Shared, data: &ConnectData) -> Result<(ControllerKind, Host), Reply> {
    let nqn = Nqn::from_field(&data.hostnqn).map_err(|_| in_data(offset::HOSTNQN))?;
    let subsystem = Nqn::from_field(&data.subnqn).map_err(|_| in_data(offset::SUBNQN))?;
    let host = Host {
        nqn,
        id: data.hostid,
    };
    if host.id == [0; 16] {
        return Err(in_data(offset::HOSTID));
    }
    if subsystem.is_discovery() {
        return Ok((ControllerKind::Discovery, host));
    }
    if subsystem != shared.subsystem.nqn {
        return Err(in_data(offset::SUBNQN));
    }
    if !shared.subsystem.hosts.allow(&host.nqn) {
        return Err(Status::ConnectHost.into());
    }
    Ok((ControllerKind::Io, host))
}

/// Connect of an I/O queue, when its time has come (spec: base 2.0 §6.3).
pub(crate) fn connect_queue<D: AsRef<[u8]>>(
    connection: &mut Connection<D>,
    shared: &mut Shared,
    sqe: &Sqe,
    data: &ConnectData,
) -> Result<u64, Reply> {
    let connect = Connect::from_sqe(sqe);
    let clock = shared.clock;
    let controller = check_association(shared, data)?;
    let is_good = connect.qid <= controller.features.io_queues()
        && !controller.queues.contains_key(&connect.qid);
    if !is_good {
        return Err(in_sqe(offset::QID));
    }
    controller.hear(clock, clock.told());
    controller.queues.insert(connect.qid, connection.id);
    let cntlid = controller.cntlid;
    open(connection, connect, cntlid);
    Ok(u64::from(cntlid))
}

/// The association that an I/O queue is to belong to, if it may have queues.
pub(crate) fn check_association<'a>(
    shared: &'a mut Shared,
    data: &ConnectData,
) -> Result<&'a mut Controller, Reply> {
    let cntlid = data.cntlid.get();
    let (kind, host) = check_names(shared, data)?;
    let controller = shared.controllers.get_mut(&cntlid);
    let controller = controller.filter(|controller| !controller.is_ended);
    // Its association may have ended just now. With Do Not Retry Linux would not come back at all.
    let controller = controller.ok_or_else(|| Reply {
        may_retry: true,
        ..in_data(offset::CNTLID)
    })?;
    if controller.kind != kind || kind == ControllerKind::Discovery {
        return Err(in_data(offset::SUBNQN));
    }
    if controller.host.nqn != host.nqn {
        return Err(in_data(offset::HOSTNQN));
    }
    if controller.host.id != host.id {
        return Err(in_data(offset::HOSTID));
    }
    if !controller.is_ready() {
        return Err(Status::SequenceError.into());
    }
    Ok(controller)
}

fn open<D: AsRef<[u8]>>(connection: &mut Connection<D>, connect: Connect, cntlid: u16) {
    connection.open_queue(Queue {
        cntlid,
        qid: connect.qid,
        size: connect.sqsize + 1,
        flow_control: connect.flow_control,
        // Connect itself was the first entry.
        sqhd: 1,
    });
}

/// Property Get and Property Set (spec: base 2.0 §6.5, §6.6).
pub(crate) fn property<D: AsRef<[u8]>>(
    connection: &mut Connection<D>,
    shared: &mut Shared,
    queue: Queue,
    sqe: &Sqe,
) -> Result<Outcome, Reply> {
    let access = PropertyAccess::from_sqe(sqe)?;
    let controller = shared.controllers.get_mut(&queue.cntlid);
    let controller = controller.ok_or(Status::SequenceError)?;
    if FabricsType::of(sqe) == Some(FabricsType::PropertyGet) {
        return Ok(Outcome::Reply(get(controller, access)?));
    }
    if access.offset != property::CC || access.is_wide {
        return Err(Status::InvalidField.into());
    }
    let value = Configuration((access.value & 0xffff_ffff) as u32);
    match controller.configure(value) {
        Change::None => {}
        Change::Reset => {
            connection.forget_events();
            shared.effects.push_back(Effect::CloseQueues(queue.cntlid));
        }
        Change::Shutdown => shutdown(connection, shared, queue, sqe),
    }
    Ok(Outcome::Reply(0))
}

fn get(controller: &Controller, access: PropertyAccess) -> Result<u64, Reply> {
    let value = match (access.offset, access.is_wide) {
        (property::CAP, true) => CAPABILITIES.to_bits(),
        (property::VS, false) => u64::from(property::VERSION_2_0),
        (property::CC, false) => u64::from(controller.configuration.0),
        (property::CSTS, false) => u64::from(controller.status.to_bits()),
        // CRWMT in units of 500 ms; there is no ready without media.
        (property::CRTO, false) => u64::from(CAPABILITIES.timeout),
        _ => return Err(Status::InvalidField.into()),
    };
    Ok(value)
}

/// What was answered becomes durable before CSTS says that the shutdown is complete.
fn shutdown<D: AsRef<[u8]>>(
    connection: &mut Connection<D>,
    shared: &mut Shared,
    queue: Queue,
    sqe: &Sqe,
) {
    let controller = shared.controllers.get_mut(&queue.cntlid);
    let Some(controller) = controller else { return };
    if controller.kind == ControllerKind::Discovery || !shared.subsystem.is_volatile() {
        controller.finish_shutdown(true);
        return;
    }
    let tag = connection.insert(sqe, 0, State::Backend(Work::Shutdown));
    connection.act(shared, tag, None, Operation::Flush);
}
