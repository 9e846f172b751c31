import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { FinishedSpan } from 'millrace/otel';

/** An attribute as it arrived; 64-bit integers beyond the safe ones lose precision. */
export type ReceivedValue =
  | string
  | number
  | boolean
  | Uint8Array
  | readonly ReceivedValue[]
  | { readonly [key: string]: ReceivedValue }
  | undefined;

export type ReceivedAttributes = Readonly<Record<string, ReceivedValue>>;

/** A span as it arrived over OTLP. */
export interface ReceivedSpan extends FinishedSpan {
  readonly kind: 'unspecified' | 'internal' | 'server' | 'client' | 'producer' | 'consumer';
  readonly attributes: ReceivedAttributes;
  readonly events: readonly { readonly name: string; readonly attributes: ReceivedAttributes }[];
  readonly links: readonly { readonly traceId: string; readonly spanId: string }[];
  /** The process that made it: `service.name` and the like. */
  readonly resource: ReceivedAttributes;
  /** The name of the tracer. */
  readonly scope: string;
  readonly scopeVersion: string;
}

const kinds = ['unspecified', 'internal', 'server', 'client', 'producer', 'consumer'] as const;
const statusCodes = ['unset', 'ok', 'error'] as const;

/**
 * The spans of an `ExportTraceServiceRequest` in protobuf, in the order sent. Fields that are not of interest here are skipped; bytes that
 * are no message throw. Source: opentelemetry-proto, `trace/v1/trace.proto` and `common/v1/common.proto`.
 */
export function decodeTraceRequest(body: Uint8Array): readonly ReceivedSpan[] {
  return new Message(body).messages(1).flatMap((resourceSpans) => {
    const resource = attributesOf(resourceSpans.message(1), 1);
    return resourceSpans.messages(2).flatMap((scopeSpans) => {
      const named = scopeSpans.message(1);
      const scope = named?.text(1) ?? '';
      const scopeVersion = named?.text(2) ?? '';
      return scopeSpans.messages(2).map((span) => ({ ...spanOf(span), resource, scope, scopeVersion }));
    });
  });
}

function spanOf(span: Message): Omit<ReceivedSpan, 'resource' | 'scope' | 'scopeVersion'> {
  const parentSpanId = hex(span.bytes(4));
  return {
    traceId: hex(span.bytes(1)),
    spanId: hex(span.bytes(2)),
    ...(parentSpanId !== '' && { parentSpanId }),
    name: span.text(5),
    kind: kinds[Number(span.integer(6))] ?? 'unspecified',
    startMs: milliseconds(span.integer(7)),
    endMs: milliseconds(span.integer(8)),
    attributes: attributesOf(span, 9),
    events: span.messages(11).map((event) => ({ name: event.text(2), attributes: attributesOf(event, 3) })),
    links: span.messages(13).map((link) => ({ traceId: hex(link.bytes(1)), spanId: hex(link.bytes(2)) })),
    status: statusOf(span.message(15)),
  };
}

function statusOf(status: Message | undefined): ReceivedSpan['status'] {
  const code = statusCodes[Number(status?.integer(3) ?? 0n)] ?? 'unset';
  const message = status?.text(2) ?? '';
  return message === '' ? { code } : { code, message };
}

/** The `KeyValue`s that a field of a message repeats. */
function attributesOf(message: Message | undefined, number: number): ReceivedAttributes {
  const pairs = message?.messages(number) ?? [];
  return Object.fromEntries(pairs.map((pair) => [pair.text(1), received(pair.message(2))]));
}

/** An `AnyValue`: whichever of its fields is there. */
function received(value: Message | undefined): ReceivedValue {
  switch (value?.numbers[0]) {
    case 1:
      return value.text(1);
    case 2:
      return value.integer(2) !== 0n;
    case 3:
      return Number(BigInt.asIntN(64, value.integer(3)));
    case 4:
      return value.double(4);
    case 5:
      return value.message(5)?.messages(1).map(received) ?? [];
    case 6:
      return attributesOf(value.message(6), 1);
    case 7:
      return value.bytes(7);
    default:
      return undefined;
  }
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

function milliseconds(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000n) / 1_000;
}

/** The fields of a protobuf message by their numbers. An absent field is empty or zero, as in proto3. */
class Message {
  readonly #fields: readonly { readonly number: number; readonly value: bigint | Uint8Array }[];

  constructor(bytes: Uint8Array) {
    const reader = new BinaryReader(bytes);
    const fields = [];
    while (reader.pos < reader.len) {
      const [number, wireType] = reader.tag();
      fields.push({ number, value: fieldValue(reader, wireType) });
    }
    this.#fields = fields;
  }

  get numbers(): readonly number[] {
    return this.#fields.map(({ number }) => number);
  }

  messages(number: number): readonly Message[] {
    return this.#all(number).flatMap((value) => (typeof value === 'bigint' ? [] : [new Message(value)]));
  }

  message(number: number): Message | undefined {
    return this.messages(number)[0];
  }

  bytes(number: number): Uint8Array {
    const [value] = this.#all(number);
    return value instanceof Uint8Array ? value : new Uint8Array();
  }

  text(number: number): string {
    return new TextDecoder().decode(this.bytes(number));
  }

  /** A varint or a fixed64, as 64 unsigned bits. */
  integer(number: number): bigint {
    const [value] = this.#all(number);
    return typeof value === 'bigint' ? value : 0n;
  }

  double(number: number): number {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setBigUint64(0, this.integer(number));
    return bits.getFloat64(0);
  }

  #all(wanted: number): readonly (bigint | Uint8Array)[] {
    return this.#fields.filter(({ number }) => number === wanted).map(({ value }) => value);
  }
}

function fieldValue(reader: BinaryReader, wireType: WireType): bigint | Uint8Array {
  if (wireType === WireType.LengthDelimited) return reader.bytes();
  if (wireType === WireType.Varint) return BigInt(reader.uint64());
  if (wireType === WireType.Bit64) return BigInt(reader.fixed64());
  return BigInt(reader.fixed32());
}
