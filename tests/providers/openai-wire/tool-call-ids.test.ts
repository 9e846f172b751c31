import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { ToolCall } from 'millrace';
import { ToolCallIds } from 'millrace/internals';

function calls(...ids: readonly string[]): readonly ToolCall[] {
  return ids.map((id) => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } }));
}

describe('ToolCallIds', () => {
  it('keeps ids that every server accepts', () => {
    const ids = new ToolCallIds();
    expect(ids.ofCalls(calls('call_00_Ab-9', 'toolu_1'))).toEqual(['call_00_Ab-9', 'toolu_1']);
    expect(ids.ofResult('toolu_1')).toBe('toolu_1');
  });

  it('rewrites our own ids, in the call and in its result', () => {
    const ids = new ToolCallIds();
    expect(ids.ofCalls(calls('1:0', 'a/1:1', ''))).toEqual(['1_0', 'a_1_1', 'call']);
    expect([ids.ofResult('a/1:1'), ids.ofResult('1:0'), ids.ofResult('')]).toEqual(['a_1_1', '1_0', 'call']);
  });

  it('gives no id twice, also where turns of one conversation repeat theirs', () => {
    const ids = new ToolCallIds();
    expect(ids.ofCalls(calls('1:0', '1_0'))).toEqual(['1_0', '1_0_2']);
    expect([ids.ofResult('1:0'), ids.ofResult('1_0')]).toEqual(['1_0', '1_0_2']);
    expect(ids.ofCalls(calls('1:0'))).toEqual(['1_0_3']);
    expect(ids.ofResult('1:0')).toBe('1_0_3');
  });

  it('gives the results of calls with one id to them in their order', () => {
    const ids = new ToolCallIds();
    expect(ids.ofCalls(calls('x', 'x'))).toEqual(['x', 'x_2']);
    expect([ids.ofResult('x'), ids.ofResult('x')]).toEqual(['x', 'x_2']);
  });

  it('does not give the result of a later call to an earlier one that has none', () => {
    const ids = new ToolCallIds();
    ids.ofCalls(calls('x'));
    const [later] = ids.ofCalls(calls('x'));
    expect(ids.ofResult('x')).toBe(later);
  });

  it('leaves an id alone in which LiteLLM hides a thought signature', () => {
    const id = 'call_1__thought__Ab+/c==';
    expect(new ToolCallIds().ofCalls(calls(id))).toEqual([id]);
  });

  it('names a result without a call as the call would be named', () => {
    expect(new ToolCallIds().ofResult('3:1')).toBe('3_1');
  });

  it('gives distinct acceptable ids that results agree with, and the same ones again when the history grows', () => {
    const batches = fc.array(fc.uniqueArray(fc.string({ maxLength: 3 }), { minLength: 1, maxLength: 4 }), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(batches, (history) => {
        const ids = new ToolCallIds();
        const given = history.map((batch) => {
          const wireIds = ids.ofCalls(calls(...batch));
          expect(batch.map((id) => ids.ofResult(id))).toEqual(wireIds);
          return wireIds;
        });
        expect(new Set(given.flat()).size).toBe(given.flat().length);
        for (const id of given.flat()) expect(id).toMatch(/^[A-Za-z0-9_-]+$/);

        const again = new ToolCallIds();
        expect(history.slice(0, -1).map((batch) => again.ofCalls(calls(...batch)))).toEqual(given.slice(0, -1));
      }),
    );
  });
});
