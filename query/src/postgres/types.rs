//! The one table of types: the PostgreSQL type of each Arrow type, and PostgreSQL's own facts about
//! it, from its catalog `pg_type` (`types.txt`).

use std::sync::LazyLock;

use arrow::datatypes::{DataType, Field};

use crate::marks::holds_documents;

/// The key of a field's metadata that names a PostgreSQL type which no Arrow type implies.
pub(crate) const PG_TYPE: &str = "pg_type";

/// The number of the schema `pg_catalog`, in which every type is.
pub(crate) const PG_CATALOG: u32 = 11;

/// A PostgreSQL type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PgType {
    /// Its number.
    pub oid: u32,
    /// Its own name, `udt_name`: `int4`, `timestamptz`, `_text`.
    pub name: &'static str,
    /// Its name in SQL: `integer`, `timestamp with time zone`, `ARRAY`.
    pub sql_name: &'static str,
    /// Its length, bytes; -1 where it varies.
    pub size: i16,
}

/// A row of `pg_type`.
#[derive(Debug)]
pub(crate) struct TypeRow {
    pub(crate) oid: u32,
    pub(crate) name: &'static str,
    pub(crate) sql_name: String,
    pub(crate) size: i16,
    pub(crate) category: &'static str,
    pub(crate) is_preferred: bool,
    pub(crate) is_by_value: bool,
    pub(crate) align: &'static str,
    pub(crate) storage: &'static str,
    /// The type of the elements, 0 for none.
    pub(crate) element: u32,
    /// The type of arrays of it, 0 for none.
    pub(crate) array: u32,
    /// The functions `input`, `output`, `receive` and `send`.
    pub(crate) functions: [u32; 4],
    pub(crate) collation: u32,
}

/// The functions of every array type: `array_in`, `array_out`, `array_recv`, `array_send`.
pub(crate) const OF_ARRAYS: [u32; 4] = [750, 751, 2400, 2401];

/// All types: those of `types.txt`, then their arrays.
static ROWS: LazyLock<Vec<TypeRow>> = LazyLock::new(|| {
    let mut rows: Vec<TypeRow> = include_str!("types.txt").lines().map(row).collect();
    let arrays: Vec<TypeRow> = rows.iter().filter(|row| row.array != 0).map(of).collect();
    rows.extend(arrays);
    rows
});

/// Reads a line of `types.txt`: oid, name, size, category, preferred, by value, align, storage,
/// element, array, the four functions, collation, and the name in SQL.
fn row(line: &'static str) -> TypeRow {
    let words: Vec<&'static str> = line.splitn(16, ' ').collect();
    let number = |at: usize| words[at].parse().expect("BUG: types.txt has a number here");
    TypeRow {
        oid: number(0),
        name: words[1],
        sql_name: words[15].to_owned(),
        size: words[2].parse().expect("BUG: types.txt has a size here"),
        category: words[3],
        is_preferred: words[4] == "t",
        is_by_value: words[5] == "t",
        align: words[6],
        storage: words[7],
        element: number(8),
        array: number(9),
        functions: [number(10), number(11), number(12), number(13)],
        collation: number(14),
    }
}

/// Returns the type of arrays of a type.
fn of(element: &TypeRow) -> TypeRow {
    let align = if element.align == "d" { "d" } else { "i" };
    TypeRow {
        oid: element.array,
        name: Box::leak(format!("_{}", element.name).into_boxed_str()),
        sql_name: format!("{}[]", element.sql_name),
        size: -1,
        category: "A",
        is_preferred: false,
        is_by_value: false,
        align,
        storage: "x",
        element: element.oid,
        array: 0,
        functions: OF_ARRAYS,
        collation: element.collation,
    }
}

/// Returns all rows of `pg_type`.
pub(crate) fn rows() -> &'static [TypeRow] {
    &ROWS
}

/// Returns the type of a number.
pub(crate) fn by_oid(oid: u32) -> Option<&'static TypeRow> {
    ROWS.iter().find(|row| row.oid == oid)
}

/// Returns the type of a name, its own or that of SQL.
pub(crate) fn by_name(name: &str) -> Option<&'static TypeRow> {
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    let name = name.trim_matches('"').to_ascii_lowercase();
    ROWS.iter()
        .find(|row| row.name == name || row.sql_name == name)
}

impl TypeRow {
    /// Returns the type as [`pg_type`] does.
    pub(crate) fn brief(&'static self) -> PgType {
        let is_array = self.functions == OF_ARRAYS;
        PgType {
            oid: self.oid,
            name: self.name,
            sql_name: if is_array { "ARRAY" } else { &self.sql_name },
            size: self.size,
        }
    }
}

fn named(name: &str) -> PgType {
    let row = ROWS.iter().find(|row| row.name == name);
    row.expect("BUG: types.txt has every type of pg_type()")
        .brief()
}

/// Returns the PostgreSQL type of an Arrow type. A type that PostgreSQL does not have becomes the
/// next wider one.
pub fn pg_type(data_type: &DataType) -> PgType {
    named(match data_type {
        DataType::Boolean => "bool",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "int2",
        DataType::Int32 | DataType::UInt16 => "int4",
        DataType::Int64 | DataType::UInt32 => "int8",
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => "numeric",
        DataType::Float16 | DataType::Float32 => "float4",
        DataType::Float64 => "float8",
        DataType::Timestamp(_, Some(_)) => "timestamptz",
        DataType::Timestamp(_, None) => "timestamp",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => "bytea",
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _)
        | DataType::ListView(element)
        | DataType::LargeListView(element) => return array_of(pg_type_of(element)),
        DataType::Struct(_) | DataType::Map(..) | DataType::Union(..) => "jsonb",
        DataType::Dictionary(_, values) => return pg_type(values),
        DataType::RunEndEncoded(_, values) => return pg_type(values.data_type()),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Null => "text",
    })
}

/// Returns the type of arrays. Arrays of arrays have the type of their innermost elements, as in
/// PostgreSQL.
fn array_of(element: PgType) -> PgType {
    match by_oid(element.oid).map(|row| row.array) {
        Some(array) if array != 0 => by_oid(array).map_or(element, TypeRow::brief),
        _ => element,
    }
}

/// Returns the PostgreSQL type of a column: that of its metadata, `jsonb` for the overflow column,
/// or that of its Arrow type.
pub fn pg_type_of(field: &Field) -> PgType {
    let named = field.metadata().get(PG_TYPE).and_then(|name| by_name(name));
    match named {
        Some(row) => row.brief(),
        None if holds_documents(field) => {
            by_name("jsonb").map_or_else(|| pg_type(field.data_type()), TypeRow::brief)
        }
        None => pg_type(field.data_type()),
    }
}

/// Returns the Arrow field of a type of `tables.txt`, or of a cast.
pub(crate) fn field(name: &str, type_name: &str, nullable: bool) -> Field {
    let (inner, is_list) = match type_name.strip_prefix('_') {
        Some(inner) => (inner, true),
        None => (type_name, false),
    };
    let data_type = match inner {
        "bool" => DataType::Boolean,
        "int2" => DataType::Int16,
        "int4" => DataType::Int32,
        "int8" => DataType::Int64,
        "float4" => DataType::Float32,
        "float8" | "numeric" => DataType::Float64,
        "oid" => DataType::UInt32,
        "bytea" => DataType::Binary,
        "timestamptz" => storage::ColumnType::Time.arrow(),
        _ => DataType::Utf8,
    };
    let own = |field: Field| match inner {
        "oid" | "char" | "name" => {
            field.with_metadata([(PG_TYPE.to_owned(), inner.to_owned())].into())
        }
        _ => field,
    };
    match is_list {
        true => Field::new_list(name, own(Field::new_list_field(data_type, true)), nullable),
        false => own(Field::new(name, data_type, nullable)),
    }
}
