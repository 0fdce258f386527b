//! Methods that a function delegates to the DataFusion function which it replaces, `self.inner`.
//!
//! A method that is not delegated has the trait's default. Without an error, DataFusion would
//! then lose the name of the function in a plan, or which of its arguments may stay uncomputed.

/// Delegates a [`ScalarUDFImpl`](datafusion::logical_expr::ScalarUDFImpl) to a
/// [`ScalarUDF`](datafusion::logical_expr::ScalarUDF): names, types, and when arguments are
/// computed.
macro_rules! scalar_as_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }
        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }
        fn schema_name(
            &self,
            args: &[datafusion::logical_expr::Expr],
        ) -> datafusion::common::Result<String> {
            self.inner.schema_name(args)
        }
        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }
        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.coerce_types(types)
        }
        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }
        fn return_field_from_args(
            &self,
            args: datafusion::logical_expr::ReturnFieldArgs<'_>,
        ) -> datafusion::common::Result<arrow::datatypes::FieldRef> {
            self.inner.return_field_from_args(args)
        }
        fn is_strict(&self) -> bool {
            self.inner.is_strict()
        }
        fn short_circuits(&self) -> bool {
            self.inner.short_circuits()
        }
        fn conditional_arguments<'a>(
            &self,
            args: &'a [datafusion::logical_expr::Expr],
        ) -> Option<(
            Vec<&'a datafusion::logical_expr::Expr>,
            Vec<&'a datafusion::logical_expr::Expr>,
        )> {
            self.inner.conditional_arguments(args)
        }
        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

/// Delegates an [`AggregateUDFImpl`](datafusion::logical_expr::AggregateUDFImpl) to an
/// [`AggregateUDF`](datafusion::logical_expr::AggregateUDF): names, types, and the meaning of the
/// order of rows.
macro_rules! aggregate_as_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }
        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }
        fn signature(&self) -> &datafusion::logical_expr::Signature {
            self.inner.signature()
        }
        fn coerce_types(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<Vec<arrow::datatypes::DataType>> {
            self.inner.coerce_types(types)
        }
        fn return_type(
            &self,
            types: &[arrow::datatypes::DataType],
        ) -> datafusion::common::Result<arrow::datatypes::DataType> {
            self.inner.return_type(types)
        }
        fn return_field(
            &self,
            fields: &[arrow::datatypes::FieldRef],
        ) -> datafusion::common::Result<arrow::datatypes::FieldRef> {
            self.inner.return_field(fields)
        }
        fn is_nullable(&self) -> bool {
            self.inner.is_nullable()
        }
        fn default_value(
            &self,
            kind: &arrow::datatypes::DataType,
        ) -> datafusion::common::Result<datafusion::common::ScalarValue> {
            self.inner.default_value(kind)
        }
        fn groups_accumulator_supported(
            &self,
            args: datafusion::logical_expr::function::AccumulatorArgs<'_>,
        ) -> bool {
            self.inner.groups_accumulator_supported(args)
        }
        fn order_sensitivity(&self) -> datafusion::logical_expr::utils::AggregateOrderSensitivity {
            self.inner.order_sensitivity()
        }
        fn set_monotonicity(
            &self,
            kind: &arrow::datatypes::DataType,
        ) -> datafusion::logical_expr::SetMonotonicity {
            self.inner.inner().set_monotonicity(kind)
        }
        fn supports_null_handling_clause(&self) -> bool {
            self.inner.supports_null_handling_clause()
        }
        fn supports_within_group_clause(&self) -> bool {
            self.inner.supports_within_group_clause()
        }
        fn documentation(&self) -> Option<&datafusion::logical_expr::Documentation> {
            self.inner.documentation()
        }
    };
}

pub(crate) use {aggregate_as_inner, scalar_as_inner};
