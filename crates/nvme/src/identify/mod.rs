//! Identify: the command and its data structures.
//!
//! spec: base 2.0 §5.17, nvm 1.0 §4.1.5.

mod controller;
mod list;
mod namespace;

pub use controller::{
    ControllerKind, IdentifyController, NvmController, PowerState, ascii_field, attribute,
    command_support, log_attribute, sgl_support,
};
pub use list::read_namespace_list;
pub use list::{Descriptor, command_sets, descriptors, namespace_list, read_descriptors};
pub use namespace::{
    IdentifyNamespace, IndependentNamespace, LbaFormat, NvmNamespace, namespace_feature,
};

use crate::opcode;
use crate::sgl::Sgl;
use crate::sqe::Sqe;
use crate::{IDENTIFY_BYTES, status::Status};

/// What Identify is asked for (spec: base 2.0 §5.17.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Cns {
    /// A namespace.
    Namespace = 0x00,
    /// The controller.
    Controller = 0x01,
    /// Active namespaces above an id.
    ActiveNamespaces = 0x02,
    /// Identifiers of a namespace.
    Descriptors = 0x03,
    /// A namespace, what its command set adds.
    SetNamespace = 0x05,
    /// The controller, what a command set adds.
    SetController = 0x06,
    /// Active namespaces of a command set.
    SetActiveNamespaces = 0x07,
    /// A namespace, what all command sets share.
    IndependentNamespace = 0x08,
    /// Combinations of command sets.
    CommandSets = 0x1c,
}

impl Cns {
    /// The value with this number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        let all = [
            Self::Namespace,
            Self::Controller,
            Self::ActiveNamespaces,
            Self::Descriptors,
            Self::SetNamespace,
            Self::SetController,
            Self::SetActiveNamespaces,
            Self::IndependentNamespace,
            Self::CommandSets,
        ];
        all.into_iter().find(|cns| *cns as u8 == code)
    }
}

/// Parameters of Identify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identify {
    /// What.
    pub cns: Cns,
    /// Of which controller, where that matters.
    pub cntid: u16,
    /// Of which command set, where that matters; 0 is NVM.
    pub csi: u8,
    /// Namespace, or the id a list starts above.
    pub nsid: u32,
}

impl Identify {
    /// Reads the command.
    ///
    /// # Errors
    /// CNS values that are not supported.
    pub fn from_sqe(sqe: &Sqe) -> Result<Self, Status> {
        let code = (sqe.cdw(10) & 0xff) as u8;
        Ok(Self {
            cns: Cns::from_code(code).ok_or(Status::InvalidField)?,
            cntid: (sqe.cdw(10) >> 16) as u16,
            csi: (sqe.cdw(11) >> 24) as u8,
            nsid: sqe.nsid.get(),
        })
    }

    /// The command.
    #[must_use]
    pub fn to_sqe(self, cid: u16) -> Sqe {
        let length = IDENTIFY_BYTES as u32;
        let sgl = Sgl::Transport { length };
        let mut sqe = Sqe::new(opcode::admin::IDENTIFY, cid, self.nsid).with_sgl(sgl);
        sqe.set_cdw(10, u32::from(self.cns as u8) | u32::from(self.cntid) << 16);
        sqe.set_cdw(11, u32::from(self.csi) << 24);
        sqe
    }
}
