module writers

go 1.26.0

require (
	github.com/apache/arrow-go/v18 v18.8.0
	github.com/fraugster/parquet-go v0.12.0
	github.com/xitongsys/parquet-go v1.6.2
)
