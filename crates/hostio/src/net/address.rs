//! Addresses as the kernel wants them.

use super::Endpoint;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// An address of any family, with its length.
pub(super) struct Address {
    storage: Box<libc::sockaddr_storage>,
    length: libc::socklen_t,
}

impl Address {
    /// # Errors
    /// The path of a unix socket is longer than the kernel takes, or has a zero in it.
    pub(super) fn of(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => Ok(Self::tcp(address)),
            Endpoint::Unix(path) => Self::unix(path),
        }
    }

    #[expect(unsafe_code, reason = "C structures of several shapes in one memory")]
    fn new<T: Copy>(address: T) -> Self {
        const {
            assert!(mem::size_of::<T>() <= mem::size_of::<libc::sockaddr_storage>());
            assert!(mem::align_of::<T>() <= mem::align_of::<libc::sockaddr_storage>());
        }
        // SAFETY: integers only, for which zeroes are values.
        let mut storage: Box<libc::sockaddr_storage> = Box::new(unsafe { mem::zeroed() });
        // SAFETY: large enough and aligned, as asserted above; `T` has no drop.
        unsafe { (&raw mut *storage).cast::<T>().write(address) };
        Self {
            storage,
            length: mem::size_of::<T>() as libc::socklen_t,
        }
    }

    fn tcp(address: &SocketAddr) -> Self {
        match address {
            SocketAddr::V4(address) => Self::new(libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.ip().octets()),
                },
                sin_zero: [0; 8],
            }),
            SocketAddr::V6(address) => Self::new(libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr {
                    s6_addr: address.ip().octets(),
                },
                sin6_scope_id: address.scope_id(),
            }),
        }
    }

    fn unix(path: &Path) -> io::Result<Self> {
        let bytes = path.as_os_str().as_bytes();
        let mut sun_path = [0; 108];
        if bytes.is_empty() || bytes.len() >= sun_path.len() || bytes.contains(&0) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (into, byte) in sun_path.iter_mut().zip(bytes) {
            *into = *byte as libc::c_char;
        }
        Ok(Self::new(libc::sockaddr_un {
            sun_family: libc::AF_UNIX as libc::sa_family_t,
            sun_path,
        }))
    }

    /// For the kernel to read; valid as long as the address is.
    pub(super) fn pointer(&self) -> *const libc::sockaddr {
        (&raw const *self.storage).cast()
    }

    pub(super) const fn length(&self) -> libc::socklen_t {
        self.length
    }
}
