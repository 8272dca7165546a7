//! Puts up the walls around the calling process, from inside it.
//!
//! Every wall is tried; what the machine refuses is left out of the list that is handed back, and whoever gave the
//! rules decides whether the rest is enough. A wall that stands in part is not in the list.

#[cfg(target_os = "linux")]
mod calls;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod limits;

#[cfg(target_os = "linux")]
pub(crate) use limits::take_stdout;
#[cfg(target_os = "linux")]
pub use linux::lock_down;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::lock_down;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::take_stdout;

#[cfg(target_os = "linux")]
mod linux {
    use super::{calls, files, limits};
    use crate::error::JailError;
    use crate::limits::{Layer, Rules};

    /// Puts up every wall this machine offers and says which stand. Called while the process has one thread and has
    /// seen no input. There is no way back.
    pub fn lock_down(rules: &Rules) -> Result<Vec<Layer>, JailError> {
        let mut layers = Vec::new();
        let mut missing = Vec::new();
        let mut put_up = |layer, wall: &dyn Fn() -> Result<(), String>| {
            if rules.leave_out.contains(&layer) {
                return;
            }
            match wall() {
                Ok(()) => layers.push(layer),
                Err(why) => missing.push(format!("{layer:?}: {why}")),
            }
        };
        // The order matters: a new user namespace gives privileges that are then dropped, dropping them forgets the
        // parent's death signal, and after the list of system calls none of the others could be put up.
        put_up(Layer::Namespaces, &|| limits::leave_namespaces(&rules.limits));
        put_up(Layer::ResourceLimits, &|| limits::limit_resources(rules));
        put_up(Layer::NoPrivileges, &limits::drop_privileges);
        put_up(Layer::Landlock, &|| files::restrict(&rules.read));
        put_up(Layer::DiesWithParent, &|| limits::die_with(rules.parent));
        put_up(Layer::SystemCalls, &|| calls::restrict(rules));
        if rules.are_met_by(&layers) {
            Ok(layers)
        } else {
            Err(JailError::unavailable(format!("{} missing", missing.join(", "))))
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use std::io;

    use crate::error::JailError;
    use crate::limits::{Layer, Rules};

    /// There are no walls that would hold outside Linux.
    pub fn lock_down(_: &Rules) -> Result<Vec<Layer>, JailError> {
        Err(JailError::unavailable("this is not Linux"))
    }

    pub(crate) fn take_stdout() -> io::Result<io::Stdout> {
        Ok(io::stdout())
    }
}
