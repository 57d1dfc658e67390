//! Which file systems can be relied on.

use std::path::Path;

use crate::error::{Error, ErrorKind, Result};

/// What kind of file system a file is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// A disk of this machine.
    Local,
    /// This machine's memory: gone after a reboot, fences and all.
    Memory(&'static str),
    /// One whose locks, shared memory or syncs cannot be relied on between machines.
    Shared(&'static str),
}

impl FileSystem {
    /// What `f_type` of `statfs(2)` stands for.
    fn of(f_type: u32) -> Self {
        let named = |list: &[(u32, &'static str)]| {
            list.iter().find(|(magic, _)| *magic == f_type).map(|(_, name)| *name)
        };
        if let Some(name) = named(SHARED) {
            return Self::Shared(name);
        }
        named(MEMORY).map_or(Self::Local, Self::Memory)
    }

    /// The one that a path is on.
    pub(crate) fn at(path: &Path) -> rustix::io::Result<Self> {
        let found = rustix::fs::statfs(path)?;
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self::of(found.f_type as u32))
    }

    /// This file system, unless it is one that machines share.
    pub(crate) fn not_shared(self, path: &Path) -> Result<Self> {
        match self {
            Self::Local | Self::Memory(_) => Ok(self),
            Self::Shared(name) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "{} is on {name}, where locks between processes cannot be relied on: use a \
                     local disk, or for several machines a shared store",
                    path.display()
                ),
            )),
        }
    }
}

// From linux/magic.h and the file systems' own headers.
const SHARED: &[(u32, &str)] = &[
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x6573_5546, "FUSE"),
    (0x786f_4256, "VirtualBox shared folder"),
];

const MEMORY: &[(u32, &str)] = &[(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_told_from_disks() {
        for (f_type, name) in [
            (0x6969, "NFS"),
            (0xff53_4d42, "CIFS"),
            (0xfe53_4d42, "SMB2"),
            (0x0102_1997, "9p"),
            (0x6573_5546, "FUSE"),
        ] {
            assert_eq!(FileSystem::of(f_type), FileSystem::Shared(name));
        }
        assert_eq!(FileSystem::of(0x0102_1994), FileSystem::Memory("tmpfs"));
        // ext4, xfs, btrfs, overlayfs, zfs
        for f_type in [0xef53, 0x5846_5342, 0x9123_683e, 0x794c_7630, 0x2fc1_2fc1] {
            assert_eq!(FileSystem::of(f_type), FileSystem::Local);
        }
    }
}
