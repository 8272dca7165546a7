//! The migration scripts of a store, and which of them a database still needs.

use doran_engine::store::StoreError;

use crate::InspectedFormat;

/// The scripts of one kind of store, in order.
pub(crate) struct Migrations {
    /// The format that the first script makes out of an empty database. Older ones were never released.
    pub(crate) first_format: u32,
    /// Each but the first makes the next format out of the one before it.
    pub(crate) scripts: &'static [&'static str],
}

impl Migrations {
    /// The newest format, which this program writes.
    pub(crate) const fn current_format(&self) -> u32 {
        self.first_format + self.scripts.len() as u32 - 1
    }

    /// What was found, unless no program can go on from there. A newer format is no error here.
    pub(crate) fn inspected(&self, found: Option<u32>) -> Result<InspectedFormat, StoreError> {
        match self.pending(found.unwrap_or_default()) {
            Ok(_) | Err(StoreError::Newer { .. }) => {
                Ok(InspectedFormat { found, known: self.current_format() })
            }
            Err(error) => Err(error),
        }
    }

    /// The scripts that a database of format `found` still needs, each with the format that it makes. An empty
    /// database has format 0.
    pub(crate) fn pending(
        &self,
        found: u32,
    ) -> Result<impl Iterator<Item = (u32, &'static str)> + use<>, StoreError> {
        let (first, known) = (self.first_format, self.current_format());
        if found > known {
            return Err(StoreError::Newer { found, known });
        }
        if found > 0 && found < first {
            return Err(StoreError::Other(
                format!(
                    "the database has format {found}, which no release of Doran has written: this version reads \
                     {first} and newer. Move the database away and start with a new one"
                )
                .into(),
            ));
        }
        Ok((first..).zip(self.scripts.iter().copied()).skip_while(move |(format, _)| *format <= found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_gets_the_scripts_it_lacks() {
        let migrations = Migrations { first_format: 3, scripts: &["create", "widen", "split"] };
        assert_eq!(migrations.current_format(), 5);
        let describe = |found: u32| match migrations.pending(found) {
            Ok(pending) => {
                pending.map(|(format, script)| format!("{script} {format}")).collect::<Vec<_>>().join(", ")
            }
            Err(StoreError::Other(why)) => why.to_string(),
            Err(error) => error.to_string(),
        };
        let found: Vec<String> = (0..=6).map(|found| format!("{found}: {}", describe(found))).collect();
        expect_test::expect![[r#"
            0: create 3, widen 4, split 5
            1: the database has format 1, which no release of Doran has written: this version reads 3 and newer. Move the database away and start with a new one
            2: the database has format 2, which no release of Doran has written: this version reads 3 and newer. Move the database away and start with a new one
            3: widen 4, split 5
            4: split 5
            5: 
            6: the store has format 6, this program knows up to 5: use a newer doran"#]].assert_eq(&found.join("\n"));
    }
}
