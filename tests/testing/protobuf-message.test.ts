import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { AgentLoopError } from '../../src/core/contracts/errors.ts';
import { ProtobufMessage } from '../../src/testing/protobuf-message.ts';

function varint(value: bigint): number[] {
  const low = Number(value & 0x7fn);
  return value < 0x80n ? [low] : [low | 0x80, ...varint(value >> 7n)];
}

function embedded(number: number, bytes: readonly number[]): number[] {
  return [...varint(BigInt(number * 8 + 2)), ...varint(BigInt(bytes.length)), ...bytes];
}

describe('a protobuf message', () => {
  it('gives back every varint, fixed number and text', () => {
    const number = fc.integer({ min: 1, max: 536_870_911 });
    const unsigned = fc.bigInt({ min: 0n, max: 2n ** 64n - 1n });
    fc.assert(
      fc.property(
        number,
        unsigned,
        fc.double({ noNaN: true }),
        fc.string({ unit: 'grapheme' }),
        (field, value, real, text) => {
          const bits = new DataView(new ArrayBuffer(8));
          bits.setFloat64(0, real, true);
          const fixed = new Uint8Array(bits.buffer);
          const message = new ProtobufMessage(
            Uint8Array.from([
              ...embedded(field, [
                ...[1 * 8 + 0, ...varint(value)],
                ...[2 * 8 + 1, ...fixed],
                ...embedded(3, [...new TextEncoder().encode(text)]),
              ]),
            ]),
          );
          const inner = message.message(field);
          expect(inner?.integer(1)).toBe(value);
          expect(inner?.double(2)).toBe(real);
          expect(inner?.text(3)).toBe(text);
          expect(inner?.numbers).toEqual([1, 2, 3]);
        },
      ),
    );
  });

  it('reads what is absent as empty, and the first where one is wanted of many', () => {
    const message = new ProtobufMessage(Uint8Array.from([...embedded(1, [97]), ...embedded(1, [98])]));
    expect(message.text(1)).toBe('a');
    expect(message.messages(2)).toEqual([]);
    expect([message.text(9), message.integer(9), message.message(9)]).toEqual(['', 0n, undefined]);
  });

  it('reads the 32 bits of a fixed32', () => {
    expect(new ProtobufMessage(Uint8Array.from([13, 1, 2, 0, 0])).integer(1)).toBe(513n);
  });

  it.each([
    ['ends within a number', [0x08, 0x80]],
    ['ends within a text', [0x0a, 0x05, 0x61]],
    ['ends within a fixed64', [0x09, 1, 2, 3]],
    ['has a number of eleven bytes', [0x08, ...Array.from({ length: 10 }, () => 0xff), 0x01]],
    ['has a group', [0x0b, 0x0c]],
  ])('is refused where it %s', (_what, bytes) => {
    const read = () => new ProtobufMessage(Uint8Array.from(bytes));
    expect(read).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  });

  it('of any bytes is read or refused, nothing else', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        try {
          expect(new ProtobufMessage(bytes).numbers.length).toBeLessThanOrEqual(bytes.length);
        } catch (thrown) {
          if (!AgentLoopError.isInstance(thrown) || thrown.code !== 'INVALID_INPUT') throw thrown;
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
