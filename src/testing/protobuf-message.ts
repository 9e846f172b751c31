import { AgentLoopError } from '../core/contracts/index.ts';

type Field =
  | { readonly number: number; readonly scalar: bigint }
  | { readonly number: number; readonly bytes: Uint8Array };

const decoder = new TextDecoder();

/**
 * A protobuf message read by field numbers, without its schema. What is absent reads as proto3 has it: empty or zero. Bytes that
 * are no message are `INVALID_INPUT`; groups, which proto3 does not have, too. Source: https://protobuf.dev/programming-guides/encoding
 */
export class ProtobufMessage {
  readonly #fields: readonly Field[];

  constructor(bytes: Uint8Array) {
    this.#fields = fieldsOf(bytes);
  }

  /** The numbers of the fields that are there, in order. */
  get numbers(): readonly number[] {
    return this.#fields.map((field) => field.number);
  }

  /** Every occurrence of an embedded message. */
  messages(number: number): readonly ProtobufMessage[] {
    return this.#all(number).map((bytes) => new ProtobufMessage(bytes));
  }

  message(number: number): ProtobufMessage | undefined {
    const bytes = this.#all(number)[0];
    return bytes === undefined ? undefined : new ProtobufMessage(bytes);
  }

  bytes(number: number): Uint8Array {
    return this.#all(number)[0] ?? new Uint8Array();
  }

  text(number: number): string {
    return decoder.decode(this.bytes(number));
  }

  /** A varint or a fixed one, its 64 bits unsigned. */
  integer(number: number): bigint {
    const field = this.#fields.find((candidate) => candidate.number === number);
    return field !== undefined && 'scalar' in field ? field.scalar : 0n;
  }

  double(number: number): number {
    const bits = new DataView(new ArrayBuffer(8));
    bits.setBigUint64(0, this.integer(number));
    return bits.getFloat64(0);
  }

  #all(number: number): readonly Uint8Array[] {
    const found: Uint8Array[] = [];
    for (const field of this.#fields) if (field.number === number && 'bytes' in field) found.push(field.bytes);
    return found;
  }
}

interface Reading {
  readonly view: DataView;
  readonly bytes: Uint8Array;
  position: number;
}

function fieldsOf(bytes: Uint8Array): readonly Field[] {
  const reading: Reading = { bytes, view: new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength), position: 0 };
  const fields: Field[] = [];
  while (reading.position < bytes.length) {
    const tag = Number(varint(reading));
    fields.push(fieldOf(Math.floor(tag / 8), tag % 8, reading));
  }
  return fields;
}

function fieldOf(number: number, wireType: number, reading: Reading): Field {
  if (wireType === 0) return { number, scalar: varint(reading) };
  if (wireType === 1) return { number, scalar: reading.view.getBigUint64(advance(reading, 8), true) };
  if (wireType === 5) return { number, scalar: BigInt(reading.view.getUint32(advance(reading, 4), true)) };
  if (wireType !== 2) throw malformed(`wire type ${wireType}`);
  const length = Number(varint(reading));
  const start = advance(reading, length);
  return { number, bytes: reading.bytes.subarray(start, start + length) };
}

function varint(reading: Reading): bigint {
  let value = 0n;
  for (let shift = 0n; shift < 70n; shift += 7n) {
    const byte = reading.view.getUint8(advance(reading, 1));
    value |= BigInt(byte & 0x7f) << shift;
    if (byte < 0x80) return BigInt.asUintN(64, value);
  }
  throw malformed('a number of more than ten bytes');
}

function advance(reading: Reading, length: number): number {
  const start = reading.position;
  if (start + length > reading.bytes.length) throw malformed('an end in the middle of a field');
  reading.position = start + length;
  return start;
}

function malformed(what: string): AgentLoopError {
  return new AgentLoopError('INVALID_INPUT', `The bytes are no protobuf message: they have ${what}.`);
}
