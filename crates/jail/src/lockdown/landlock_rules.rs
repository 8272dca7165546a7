//! Landlock: only listed files can be read, no file created or executed, no TCP port used, no outside process
//! signalled.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest Landlock version that was tested. Older kernels enforce the part they support.
const NEWEST_LANDLOCK_ABI: ABI = ABI::V6;

pub(super) fn install_landlock(readable: &[PathBuf]) -> Result<(), String> {
    apply_ruleset(readable).map_err(|error| error.to_string()).and_then(|status| match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("this kernel does not enforce it".to_string()),
    })
}

fn apply_ruleset(readable: &[PathBuf]) -> Result<RulesetStatus, Box<dyn std::error::Error>> {
    // The first version, which restricts files, is required. Later ones (ports, signals, truncating) are used where
    // the kernel supports them. The other layers restrict those as well.
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST_LANDLOCK_ABI))?
        .handle_access(AccessNet::from_all(NEWEST_LANDLOCK_ABI))?
        .scope(Scope::from_all(NEWEST_LANDLOCK_ABI))?
        .create()?;
    for path in readable {
        let file = PathFd::new(path)?;
        let access =
            if path.is_dir() { AccessFs::ReadFile | AccessFs::ReadDir } else { AccessFs::ReadFile.into() };
        ruleset = ruleset.add_rule(PathBeneath::new(file, access))?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}
