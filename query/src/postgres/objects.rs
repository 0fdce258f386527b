//! The objects of one query's catalog: schemas, tables and columns, each with a number.

use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use arrow::datatypes::FieldRef;

use super::tables::{self, INFORMATION_SCHEMA, PG_CATALOG};
use super::types::{self, PgType, pg_type_of};

/// The first number that PostgreSQL gives to objects of users.
const FIRST: u32 = 16_384;
/// The number of the one database.
pub(crate) const DATABASE: u32 = 16_384;
/// The number of the one role.
pub(crate) const ROLE: u32 = 10;

/// A schema.
#[derive(Debug)]
pub(crate) struct SchemaObject {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) comment: Option<String>,
}

/// A column of a table.
#[derive(Debug)]
pub(crate) struct ColumnObject {
    pub(crate) name: String,
    pub(crate) pg_type: PgType,
    pub(crate) is_nullable: bool,
    pub(crate) comment: Option<String>,
}

impl ColumnObject {
    pub(crate) fn new(field: &FieldRef, comment: Option<String>) -> Self {
        Self {
            name: field.name().clone(),
            pg_type: pg_type_of(field),
            is_nullable: field.is_nullable(),
            comment,
        }
    }
}

/// A table.
#[derive(Debug)]
pub(crate) struct TableObject {
    pub(crate) oid: u32,
    pub(crate) schema: String,
    pub(crate) name: String,
    /// It is computed from other tables, or from the catalog.
    pub(crate) is_view: bool,
    pub(crate) columns: Vec<ColumnObject>,
    pub(crate) comment: Option<String>,
    /// Its rows, where the manifest knows them.
    pub(crate) rows: Option<u64>,
    /// The bytes of its files.
    pub(crate) bytes: u64,
}

impl TableObject {
    /// Returns the type of the table's rows, which is a type of its own.
    pub(crate) fn row_type(&self) -> u32 {
        self.oid + 1
    }
}

/// All schemas and tables that a client sees.
#[derive(Debug, Default)]
pub(crate) struct Objects {
    pub(crate) schemas: Vec<SchemaObject>,
    pub(crate) tables: Vec<TableObject>,
}

/// ObjectNumbers of objects by their names.
#[derive(Debug, Default)]
struct ObjectNumbers(HashSet<u32>);

impl ObjectNumbers {
    /// Returns an even number that follows from the name; another one follows it if another object
    /// has it already. ObjectNumbers below 2³¹ fit the integers of every client.
    fn of(&mut self, name: &str) -> u32 {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        name.hash(&mut hasher);
        let folded = hasher.finish() ^ (hasher.finish() >> 32);
        let space = (1 << 31) - FIRST - 2;
        let mut oid = FIRST + 2 + (u32::try_from(folded % u64::from(space)).unwrap_or(0) & !1);
        while !self.0.insert(oid) {
            oid = if oid + 2 < (1 << 31) {
                oid + 2
            } else {
                FIRST + 2
            };
        }
        oid
    }
}

/// FNV-1a: its values are the same in every build, unlike those of the standard library.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Objects {
    /// ObjectNumbers tables, and adds the catalog's own.
    pub(crate) fn new(schemas: Vec<(String, Option<String>)>, tables: Vec<TableObject>) -> Self {
        let mut numbers = ObjectNumbers::default();
        let own = [
            (PG_CATALOG, types::PG_CATALOG, "system catalog schema"),
            (INFORMATION_SCHEMA, 13_000, "standard information schema"),
        ];
        let own = own.map(|(name, oid, comment)| SchemaObject {
            oid,
            name: name.to_owned(),
            comment: Some(comment.to_owned()),
        });
        let mut all = Self {
            schemas: own.into(),
            tables: tables::definitions().iter().map(tables::object).collect(),
        };
        let schemas: BTreeMap<_, _> = schemas.into_iter().collect();
        for (name, comment) in schemas {
            let oid = match name.as_str() {
                "public" => 2200,
                other => numbers.of(other),
            };
            all.schemas.push(SchemaObject { oid, name, comment });
        }
        for mut table in tables {
            table.oid = numbers.of(&format!("{}.{}", table.schema, table.name));
            all.tables.push(table);
        }
        all
    }

    /// Returns the schema of a number.
    pub(crate) fn schema(&self, oid: u32) -> Option<&SchemaObject> {
        self.schemas.iter().find(|schema| schema.oid == oid)
    }

    /// Returns the number of a schema.
    pub(crate) fn schema_oid(&self, name: &str) -> Option<u32> {
        let found = self.schemas.iter().find(|schema| schema.name == name);
        found.map(|schema| schema.oid)
    }

    /// Returns the table of a number.
    pub(crate) fn table(&self, oid: u32) -> Option<&TableObject> {
        self.tables.iter().find(|table| table.oid == oid)
    }

    /// Returns the table of a name, in a schema or else in the first of `path` that has it.
    pub(crate) fn find(
        &self,
        schema: Option<&str>,
        name: &str,
        path: &[&str],
    ) -> Option<&TableObject> {
        let in_schema = |schema: &str| {
            let mut tables = self.tables.iter();
            tables.find(|table| table.schema == schema && table.name == name)
        };
        match schema {
            Some(schema) => in_schema(schema),
            None => path.iter().find_map(|schema| in_schema(schema)),
        }
    }
}
