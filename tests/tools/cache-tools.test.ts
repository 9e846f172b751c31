import { describe, expect, it } from '@jest/globals';
import { cacheTools, InMemoryCacheStore, type ToolProvider } from 'millrace';
import { fakeClock } from 'millrace/testing';
import type { CacheToolsOptions } from 'millrace/types';
import { question } from '../core/dead-turn.ts';
import { obedient, type PlainTool, plainTools } from '../core/plain-tools.ts';
import { turnBench } from '../core/turn-bench.ts';
import { watch } from '../core/watch-events.ts';
import { listContext, toolCall, toolContext } from './tool-context.ts';

const bench = turnBench();

/** A loop whose tool `look` answers with how often it ran. */
function caching(
  options: Partial<CacheToolsOptions> = {},
  policy: Omit<PlainTool & object, 'execute'> = { readOnly: true },
) {
  const ran: unknown[] = [];
  const store = new InMemoryCacheStore();
  const look = async ({ arguments: args }: { readonly arguments: unknown }) => `seen ${ran.push(args)}`;
  const provider = cacheTools({ store, ...options })(plainTools({ look: { ...policy, execute: look } }));
  const turn = (...calls: readonly object[]) => {
    const steps = [{ toolCalls: calls.map((each) => ({ name: 'look', arguments: each })) }, { text: 'Seen.' }];
    return (ids: { readonly contextId?: string } = {}) =>
      bench
        .loop(steps, { toolProviders: [provider] })
        .startTurn(question, ids)
        .result();
  };
  return { ran, turn };
}

const contents = (result: { readonly messages: readonly { readonly role: string; readonly content: unknown }[] }) =>
  result.messages.filter(({ role }) => role === 'tool').map(({ content }) => content);

describe('cacheTools', () => {
  it('S1-97 runs equal calls of one scope once, also those under way together', async () => {
    const { ran, turn } = caching();
    const result = await turn({ a: 1, b: 2 }, { b: 2, a: 1 }, { a: 2 })();
    expect(ran).toEqual([{ a: 1, b: 2 }, { a: 2 }]);
    expect(contents(result)).toEqual(['seen 1', 'seen 1', 'seen 2']);
  });

  it('keeps no result that a provider calls a failure', async () => {
    let runs = 0;
    const flaky: ToolProvider = {
      name: 'flaky',
      getTools: (context) => plainTools({ look: { readOnly: true, execute: () => 1 } }).getTools(context),
      executeTool: ({ id }) => ({ toolCallId: id, content: `run ${++runs}`, success: runs > 1, error: 'not yet' }),
    };
    const cached = cacheTools({ store: new InMemoryCacheStore() })(flaky);
    await cached.getTools(listContext);
    const context = toolContext({ arguments: {} });
    const run = () => cached.executeTool(toolCall('look'), context);
    expect(await run()).toMatchObject({ content: 'run 1', success: false });
    expect(await run()).toMatchObject({ content: 'run 2', success: true });
    expect(await run()).toMatchObject({ content: 'run 2', success: true });
  });

  it('S1-97 keeps turns apart, unless the scope is wider', async () => {
    const own = caching();
    await own.turn({})();
    await own.turn({})();
    expect(own.ran).toHaveLength(2);
    const shared = caching({ scope: 'context' });
    await shared.turn({})({ contextId: 'one' });
    await shared.turn({})({ contextId: 'one' });
    await shared.turn({})({ contextId: 'two' });
    expect(shared.ran).toHaveLength(2);
  });

  it('gives a result no longer than its time to live', async () => {
    const clock = fakeClock();
    const { ran, turn } = caching({ store: new InMemoryCacheStore({ clock }), ttlMs: 1_000, scope: 'everywhere' });
    await turn({})();
    clock.advance(999);
    await turn({})();
    expect(ran).toHaveLength(1);
    clock.advance(1);
    await turn({})();
    expect(ran).toHaveLength(2);
  });

  it.each([
    ['a tool with effects', {}, 2],
    ['a tool with effects that says so', { cache: true }, 1],
    ['a read-only tool that refuses', { readOnly: true, cache: false }, 2],
  ])('knows of %s whether it may', async (_, policy, times) => {
    const { ran, turn } = caching({}, policy);
    await turn({}, {})();
    expect(ran).toHaveLength(times);
  });

  it('keeps no failure, and lets the next call run', async () => {
    let runs = 0;
    const flaky = async () => {
      if (++runs === 1) throw new Error('busy');
      return 'seen';
    };
    const provider = cacheTools({ store: new InMemoryCacheStore() })(
      plainTools({ look: { readOnly: true, execute: flaky } }),
    );
    const steps = [{ toolCalls: [{ name: 'look' }, { name: 'look' }] }, { text: 'Seen.' }];
    const result = await bench
      .loop(steps, { toolProviders: [provider] })
      .startTurn(question)
      .result();
    expect(contents(result)).toEqual(['Tool error: Error: busy', 'seen']);
  });

  it('passes a store by that fails', async () => {
    const failures: unknown[] = [];
    const down = () => {
      throw new Error('down');
    };
    const store = { get: down, set: down, delete: down };
    const { ran, turn } = caching({ store, onError: (error) => failures.push(error) });
    expect(contents(await turn({})())).toEqual(['seen 1']);
    expect([ran.length, failures.length]).toEqual([1, 2]);
  });

  it('stops with the turn', async () => {
    const provider = cacheTools({ store: new InMemoryCacheStore() })(
      plainTools({ look: { readOnly: true, execute: obedient } }),
    );
    const steps = [{ toolCalls: [{ name: 'look' }, { name: 'look' }] }];
    const turn = bench.loop(steps, { toolProviders: [provider] }).startTurn(question);
    const watcher = watch(turn);
    await watcher.until('internal:tool-start', ({ callId }) => callId === '1:1');
    await turn.cancel('enough');
    await watcher.ended;
    expect(watcher.of('internal:tool-complete')).toMatchObject([
      { error: { code: 'CANCELED' } },
      { error: { code: 'CANCELED' } },
    ]);
  });
});
