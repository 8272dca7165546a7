//! Puts up the walls around the calling process, from inside it.
//!
//! Every wall is tried; what the machine refuses is left out of the list that is handed back, and whoever gave the
//! rules decides whether the rest is enough. A wall that stands in part is not in the list.

#[cfg(target_os = "linux")]
mod landlock_rules;
#[cfg(target_os = "linux")]
mod process_limits;
#[cfg(target_os = "linux")]
mod seccomp_filter;

#[cfg(target_os = "linux")]
pub use linux::lock_down;
#[cfg(target_os = "linux")]
pub(crate) use process_limits::take_stdout;

#[cfg(not(target_os = "linux"))]
pub use elsewhere::lock_down;
#[cfg(not(target_os = "linux"))]
pub(crate) use elsewhere::take_stdout;

#[cfg(target_os = "linux")]
mod linux {
    use super::{landlock_rules, process_limits, seccomp_filter};
    use crate::error::JailError;
    use crate::limits::{IsolationLayer, JailRules};

    /// Puts up every wall this machine offers and says which stand. Called while the process has one thread and has
    /// seen no input. There is no way back.
    pub fn lock_down(rules: &JailRules) -> Result<Vec<IsolationLayer>, JailError> {
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
        put_up(IsolationLayer::Namespaces, &|| process_limits::leave_namespaces(&rules.limits));
        put_up(IsolationLayer::ResourceLimits, &|| process_limits::limit_resources(rules));
        put_up(IsolationLayer::NoPrivileges, &process_limits::drop_privileges);
        put_up(IsolationLayer::Landlock, &|| landlock_rules::install_landlock(&rules.read));
        put_up(IsolationLayer::DiesWithParent, &|| process_limits::die_with_parent(rules.parent));
        put_up(IsolationLayer::SystemCalls, &|| seccomp_filter::install_seccomp(rules));
        if rules.is_satisfied_by(&layers) {
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
    use crate::limits::{IsolationLayer, JailRules};

    /// There are no walls that would hold outside Linux.
    pub fn lock_down(_: &Rules) -> Result<Vec<Layer>, JailError> {
        Err(JailError::unavailable("this is not Linux"))
    }

    pub(crate) fn take_stdout() -> io::Result<io::Stdout> {
        Ok(io::stdout())
    }
}
