// Writes the table of data/parquetfile/testdata/README.md with DuckDB, polars, arrow-rs, ClickHouse,
// hyparquet-writer and parquetjs:
//
//     npm install && node write.mjs FOLDER
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import parquetjs from '@dsnp/parquetjs'
import { DuckDBInstance } from '@duckdb/node-api'
import * as chdb from 'chdb'
import { ByteWriter, parquetWrite, schemaFromColumnData } from 'hyparquet-writer'
import polars from 'nodejs-polars'
import * as arrow from 'parquet-wasm'

const out = process.argv[2]
mkdirSync(out, { recursive: true })
const file = name => `${out}/${name}.parquet`
const rows = 24

const duck = await (await DuckDBInstance.create(':memory:')).connect()
const few = `select 'c' || (i % 4) as client, [i, i / 2, -i]::float[] as x, (i % 3)::integer as y,
  i / 3 as f64, 'ä' || i as text from range(${rows}) as r(i)`
const all = `select 'c' || (i % 4) as client, [i, i / 2, -i]::float[] as x, (i % 3)::integer as y,
  (i - 12)::tinyint as i8, (i * 37 % 256)::utinyint as u8, (i * 100 - 300)::smallint as i16,
  (i * 2000)::usmallint as u16, (i * 1000003)::integer as i32, (4294967295 - i)::uinteger as u32,
  (-i * 1000000000000)::bigint as i64, (9223372036854775808 + i::hugeint)::ubigint as u64,
  (i / 8)::float as f32, i / 3 as f64, i % 2 = 1 as flag,
  (i * 1.25)::decimal(9, 2) as dec9, (i * 1000.125)::decimal(18, 3) as dec18,
  (i * -100000000000000000000.5)::decimal(38, 4) as dec38,
  'ä' || i as text, ('w' || (i % 2))::enum('w0', 'w1') as enum, ('b' || i)::blob as bin,
  ('00000000-0000-0000-0000-0000000000' || lpad(i::varchar, 2, '0'))::uuid as uuid,
  [[i::double], [], [i + 1, i + 2]] as nested, [j for j in range(i % 3)]::integer[] as ragged,
  [i, i + 1]::ubyte[2] as pair, 7 as same, if(i = 5, null, i) as holes,
  {'a': i, 'b': -i} as struct, map{'k': i} as map,
  '2020-01-01'::date + i::integer as date, '12:00:00'::time as time, '2020-01-01 00:00:00'::timestamp as stamp
  from range(${rows}) as r(i)`.replaceAll('ubyte', 'utinyint')
for (const codec of ['uncompressed', 'snappy', 'gzip', 'zstd', 'brotli', 'lz4_raw']) {
  for (const version of ['v1', 'v2']) {
    await duck.run(`copy (${few}) to '${file(`duckdb-${version}-${codec}`)}' (format parquet, compression ${codec}, parquet_version ${version})`)
  }
}
for (const version of ['v1', 'v2']) {
  await duck.run(`copy (${all}) to '${file(`duckdb-${version}-types`)}' (format parquet, compression zstd, parquet_version ${version})`)
}
await duck.run(`copy (${few}) to '${file('duckdb-few')}' (format parquet, compression uncompressed)`)

for (const compression of ['uncompressed', 'snappy', 'gzip', 'brotli', 'zstd', 'lz4']) {
  polars.readParquet(file('duckdb-few')).writeParquet(file(`polars-${compression}`), { compression })
}
polars.readParquet(file('duckdb-v2-types'), { columns: ['client', 'x', 'y', 'i8', 'u8', 'i16', 'u16', 'i32', 'u32', 'i64', 'u64', 'f32', 'f64', 'flag', 'dec9', 'dec18', 'dec38',
  'text', 'enum', 'bin', 'nested', 'ragged', 'same', 'holes', 'date', 'time', 'stamp'] }).writeParquet(file('polars-types'), { compression: 'zstd' })

const C = arrow.Compression, E = arrow.Encoding
const rust = (name, source, set) => {
  const properties = set(new arrow.WriterPropertiesBuilder().setStatisticsEnabled(arrow.EnabledStatistics.None)).build()
  writeFileSync(file(name), arrow.writeParquet(arrow.readParquet(readFileSync(file(source))), properties))
}
for (const [version, v] of [['v1', arrow.WriterVersion.V1], ['v2', arrow.WriterVersion.V2]]) {
  for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI', 'LZ4', 'ZSTD', 'LZ4_RAW']) {
    rust(`arrow-rs-${version}-${codec.toLowerCase()}`, 'duckdb-few', b => b.setWriterVersion(v).setCompression(C[codec]))
  }
  rust(`arrow-rs-${version}-types`, 'duckdb-v1-types', b => b.setWriterVersion(v).setCompression(C.ZSTD))
  rust(`arrow-rs-${version}-groups`, 'duckdb-few', b => b.setWriterVersion(v).setCompression(C.SNAPPY).setMaxRowGroupSize(5))
  rust(`arrow-rs-${version}-pages`, 'duckdb-few', b => b.setWriterVersion(v).setCompression(C.SNAPPY).setDataPageSizeLimit(16).setWriteBatchSize(1))
}
const deltas = b => b.setDictionaryEnabled(false).setWriterVersion(arrow.WriterVersion.V2).setCompression(C.UNCOMPRESSED)
for (const [name, e] of [['plain', E.PLAIN]]) rust(`arrow-rs-${name}`, 'duckdb-few', b => deltas(b).setEncoding(e))
rust('arrow-rs-delta', 'duckdb-few', b => deltas(b).setColumnEncoding('client', E.DELTA_BYTE_ARRAY)
  .setColumnEncoding('text', E.DELTA_LENGTH_BYTE_ARRAY).setColumnEncoding('y', E.DELTA_BINARY_PACKED).setColumnEncoding('f64', E.BYTE_STREAM_SPLIT))
rust('arrow-rs-split', 'duckdb-few', b => deltas(b).setColumnEncoding('y', E.BYTE_STREAM_SPLIT).setColumnEncoding('f64', E.BYTE_STREAM_SPLIT))

const click = `select concat('c', toString(number % 4)) as client, [toFloat32(number), toFloat32(number / 2), toFloat32(-number)] as x,
  toInt32(number % 3) as y, number / 3 as f64, concat('ä', toString(number)) as text`
const more = `${click}, toInt8(number - 12) as i8, toUInt8(number * 37) as u8, toUInt32(4294967295 - number) as u32, -1000000000000 * toInt64(number) as i64,
  9223372036854775808 + number as u64, toDecimal32(number * 1.25, 2) as dec9, number % 2 = 1 as flag, toFixedString(toString(number + 10), 2) as fixed,
  toNullable(number / 3) as nullable, toLowCardinality(concat('w', toString(number % 2))) as enum, range(number % 3) as ragged, now() as stamp`
for (const codec of ['none', 'snappy', 'gzip', 'brotli', 'zstd', 'lz4']) {
  chdb.query(`${click} from numbers(${rows}) into outfile '${file(`clickhouse-${codec}`)}' truncate format Parquet settings output_format_parquet_compression_method='${codec}'`)
}
chdb.query(`${more} from numbers(${rows}) into outfile '${file('clickhouse-types')}' truncate format Parquet settings output_format_parquet_row_group_size=7, output_format_parquet_write_bloom_filter=0, output_format_parquet_write_page_index=0`)

const i = Array.from({ length: rows }, (_, i) => i)
const hyparquet = (name, options, encoding = {}) => {
  const writer = new ByteWriter()
  const column = (name, type, data) => ({ name, type, data, nullable: false, encoding: encoding[name], statistics: false, offsetIndex: false })
  const x = [{ name: 'x', repetition_type: 'REQUIRED', converted_type: 'LIST', num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 }, { name: 'element', type: 'FLOAT', repetition_type: 'REQUIRED' }]
  const columnData = [
      column('client', 'STRING', i.map(i => `c${i % 4}`)),
      { name: 'x', data: i.map(i => [i, i / 2, -i]), statistics: false },
      column('y', 'INT32', i.map(i => i % 3)), column('f64', 'DOUBLE', i.map(i => i / 3)), column('text', 'STRING', i.map(i => `ä${i}`)),
      column('f32', 'FLOAT', i.map(i => i / 8)), column('f16', 'FLOAT16', i.map(i => i / 8)), column('i64', 'INT64', i.map(i => -1000000000000n * BigInt(i))),
      column('flag', 'BOOLEAN', i.map(i => i % 2 === 1)), { ...column('nullable', 'DOUBLE', i.map(i => i / 3)), nullable: true },
      { ...column('holes', 'DOUBLE', i.map(i => i === 5 ? null : i)), nullable: true },
  ]
  const schema = schemaFromColumnData({ columnData: columnData.filter(c => c.name !== 'x') })
  schema[0].num_children++
  schema.splice(2, 0, ...x)
  parquetWrite({
    writer, ...options, schema, columnData: columnData.map(({ type, nullable, ...c }) => c),
    compressors: { GZIP: b => gzipSync(b), BROTLI: b => brotliCompressSync(b) },
  })
  writeFileSync(file(name), new Uint8Array(writer.getBuffer()))
}
for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI']) hyparquet(`hyparquet-${codec.toLowerCase()}`, { codec, rowGroupSize: 10 })
hyparquet('hyparquet-delta', { codec: 'SNAPPY' }, { client: 'DELTA_BYTE_ARRAY', text: 'DELTA_LENGTH_BYTE_ARRAY', y: 'DELTA_BINARY_PACKED', i64: 'DELTA_BINARY_PACKED', f64: 'BYTE_STREAM_SPLIT', f32: 'BYTE_STREAM_SPLIT', flag: 'RLE' })

for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI']) {
  for (const version of ['v1', 'v2']) {
    const of = (type, more) => ({ type, compression: codec, statistics: false, ...more })
    const schema = new parquetjs.ParquetSchema({
      client: of('UTF8'), x: of('FLOAT', { repeated: true }), y: of('INT32'), f64: of('DOUBLE'), text: of('UTF8'),
      i64: of('INT_64'), flag: of('BOOLEAN'), nullable: of('DOUBLE', { optional: true }), holes: of('DOUBLE', { optional: true }),
    })
    const w = await parquetjs.ParquetWriter.openFile(schema, file(`parquetjs-${version}-${codec.toLowerCase()}`), { useDataPageV2: version === 'v2', rowGroupSize: 10 })
    for (const k of i) {
      await w.appendRow({
        client: `c${k % 4}`, x: [k, k / 2, -k], y: k % 3, f64: k / 3, text: `ä${k}`, i64: -1000000000000 * k,
        flag: k % 2 === 1, nullable: k / 3, holes: k === 5 ? null : k,
      })
    }
    await w.close()
  }
}
process.exit(0) // ClickHouse's threads
