//! Activates the isolation layers of the calling process.
//!
//! Every layer is tried. A layer that the machine does not support, or supports only in part, is missing from the
//! returned list. The rules decide whether the rest is sufficient.

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

    /// Activates every layer this machine supports, and returns those that are active. Call it while the process has
    /// one thread and before it reads input. It cannot be undone.
    pub fn lock_down(rules: &JailRules) -> Result<Vec<IsolationLayer>, JailError> {
        let mut layers = Vec::new();
        let mut missing = Vec::new();
        let mut activate = |layer, install: &dyn Fn() -> Result<(), String>| {
            if rules.leave_out.contains(&layer) {
                return;
            }
            match install() {
                Ok(()) => layers.push(layer),
                Err(why) => missing.push(format!("{layer:?}: {why}")),
            }
        };
        // The order matters. A new user namespace grants privileges, which are then dropped. Dropping them clears the
        // parent-death signal. After the system call filter, none of the others could be activated.
        activate(IsolationLayer::Namespaces, &|| process_limits::leave_namespaces(&rules.limits));
        activate(IsolationLayer::ResourceLimits, &|| process_limits::limit_resources(rules));
        activate(IsolationLayer::NoPrivileges, &process_limits::drop_privileges);
        activate(IsolationLayer::Landlock, &|| landlock_rules::install_landlock(&rules.read));
        activate(IsolationLayer::DiesWithParent, &|| process_limits::die_with_parent(rules.parent));
        activate(IsolationLayer::SystemCalls, &|| seccomp_filter::install_seccomp(rules));
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

    /// Always fails: there is no sufficient isolation outside of Linux.
    pub fn lock_down(_: &JailRules) -> Result<Vec<IsolationLayer>, JailError> {
        Err(JailError::unavailable("this is not Linux"))
    }

    pub(crate) fn take_stdout() -> io::Result<io::Stdout> {
        Ok(io::stdout())
    }
}
