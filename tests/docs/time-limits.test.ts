import { expect, it } from '@jest/globals';
import { resolveConfig } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { defaultOf, type Place } from './default-times.ts';
import { textOf } from './markdown.ts';

const [, section = ''] = textOf('docs/errors.md').split('\n## Time limits\n');
const lines = section.split('\n## ', 1).join('').split('\n');

interface Row {
  readonly waitsFor: string;
  readonly option: string;
  readonly defaults: readonly number[];
}

const rows = lines.flatMap((line): readonly Row[] => {
  const [, waitsFor, option, defaults] = line.split(/(?<!\\)\|/).map((cell) => cell.trim());
  if (!line.startsWith('|') || waitsFor === undefined || option === undefined || defaults === undefined) return [];
  if (waitsFor === 'waits for' || /^-+$/.test(waitsFor)) return [];
  return [
    {
      waitsFor,
      option,
      defaults: (defaults.match(/\d[\d,]*\d/g) ?? []).map((each) => Number(each.replaceAll(',', ''))),
    },
  ];
});

const loop = resolveConfig({ agentId: 'a', llmProvider: scriptedLLM([]) });
const limits = Object.entries(loop).filter(([name]) => name.endsWith('Ms'));

const at = (file: string, ...names: readonly string[]): readonly Place[] => names.map((name) => ({ file, name }));
const inside = (file: string, name: string, ...functions: readonly string[]): readonly Place[] =>
  functions.map((each) => ({ file, name, inside: each }));
const ofLoop = (name: string) => at('options/config.ts', name);

/** Where the code has the defaults of each row, in its order. */
const places: Readonly<Record<string, readonly Place[]>> = {
  'one request of a model: its next chunk, or its answer': ofLoop('modelSilenceMs'),
  'one request of `LiteLLMProvider`': at('providers/litellm-options.ts', 'timeoutMs', 'chunkTimeoutMs'),
  'one request of `AISDKProvider`': at('providers/ai-sdk/ai-sdk-options.ts', 'timeoutMs', 'chunkTimeoutMs'),
  'a place in `limitConcurrency`, `rateLimit`': at('providers/policies/limits.ts', 'maxWaitMs'),
  'the store of `cacheResponses`': at('providers/policies/cache-responses.ts', 'timeoutMs'),
  'a list of tools': ofLoop('toolListTimeoutMs'),
  'a tool, the check of its arguments, its approval function, its `onInDoubt`': ofLoop('toolTimeoutMs'),
  'a third-party schema': at('tools/schema-checks.ts', 'checkMs'),
  'a tool that is cancelled': ofLoop('abortGraceMs'),
  'a hook of an extension, a function for the prompt': at('core/hooks/ask-hooks.ts', 'timeoutMs'),
  'the summary of a compaction': at('extensions/compact-history.ts', 'timeoutMs'),
  'routing functions of a team, and the turns that they start': at('agent/roster.ts', 'routingTimeoutMs'),
  'a store': [
    ...ofLoop('storeDeadlineMs'),
    ...inside('tasks/task-commands.ts', 'deadlineMs', 'cancelTree', 'answerTask'),
  ],
  "earlier turns of the conversation, with `busy: 'queue'`": at('agent/resolve-agent.ts', 'queueTimeoutMs'),
  'the dead owner of a turn': ofLoop('leaseMs'),
  'its start, its list of tools, the function `headers`': at('mcp/server-link.ts', 'connectTimeoutMs'),
  'a call: without progress, in total': at('mcp/tool-calls.ts', 'timeoutMs', 'maxTimeMs'),
  "a person's answer while the call stays open": at('mcp/tool-calls.ts', 'holdMs'),
  'the end of its process': at('mcp/transports.ts', 'closeGraceMs'),
  'an answer of a client, in `mcpServer`': at('mcp/server/mcp-server.ts', 'answerTimeoutMs'),
  'a request to arrive, in `listen` of `mcpServer`': inside(
    'mcp/server/http-listener.ts',
    'requestTimeoutMs',
    'listen',
  ),
  'a remote agent: a request with its credentials, an update, the end of a task': at(
    'a2a/client/remote-agent.ts',
    'requestTimeoutMs',
    'silenceMs',
    'maxSilenceMs',
    'taskTimeoutMs',
  ),
  'a request to arrive, in `a2aServer`': at('a2a/server/running-server.ts', 'requestTimeoutMs'),
  'an `auth` method': at('a2a/server/running-server.ts', 'authTimeoutMs'),
  'the functions `card`, `extendedCard`': at('a2a/handler-options.ts', 'callbackTimeoutMs'),
  'a turn that a client cancels to stop': at('a2a/handler-options.ts', 'cancelDeadlineMs'),
  'a webhook': at('a2a/server/push/push-sender.ts', 'timeoutMs'),
  'turns and streams when the server closes': at('a2a/server/running-server.ts', 'closeMs'),
  'PostgreSQL: a statement, a connection': at(
    'stores/postgres/postgres-target.ts',
    'query_timeout',
    'connectionTimeoutMillis',
  ),
  'Redis: an answer; of `RedisCacheStore`': [
    ...at('stores/redis/redis-connection.ts', 'silenceMs'),
    ...at('stores/redis/redis-side-stores.ts', 'cacheSilenceMs'),
  ],
  'Redis: the replicas of a `strict` append': at('stores/redis/redis-options.ts', 'replicaTimeoutMs'),
  'LMDB: a write that another process blocks; the same on close': at(
    'stores/lmdb/lmdb-database.ts',
    'writeMs',
    'closeMs',
  ),
  'a worker that no longer renews its job': at('fleet/options.ts', 'lockMs'),
  'a worker that no longer renews the lease of a turn': at('fleet/options.ts', 'leaseMs'),
  'the running turns of a worker that drains': at('fleet/options.ts', 'drainMs'),
  'an answer of Redis to a queue': at('fleet/connection.ts', 'answerWithinMs'),
};

it.each(rows.map((row) => [row.waitsFor, row] as const))(
  'H-13 the table of time limits has the defaults of the code: %s',
  (waitsFor, { option, defaults }) => {
    const known = places[waitsFor] ?? [];
    expect(known.map(defaultOf)).toEqual(defaults);
    for (const { name } of known) if (option !== '') expect(option).toContain(name);
  },
);

it('H-13 the table of time limits is compared in each row', () => {
  expect(rows.map(({ waitsFor }) => waitsFor).sort()).toEqual(Object.keys(places).sort());
});

it.each(limits)('H-13 a loop has the default of %s that the table has', (name, value) => {
  expect(rows.flatMap((row) => (row.option.includes(`\`${name}\``) ? row.defaults : []))).toContain(value);
});

it('H-13 all limits of a loop are compared', () => {
  expect(limits.map(([name]) => name).sort()).toEqual([
    'abortGraceMs',
    'leaseMs',
    'modelSilenceMs',
    'storeDeadlineMs',
    'toolListTimeoutMs',
    'toolTimeoutMs',
  ]);
});

it('H-13 the limits of traces are those of the code', () => {
  const [traces = ''] =
    section
      .split('### Traces\n')[1]
      ?.split('\n\n', 2)
      .filter((text) => text !== '') ?? [];
  const said = (traces.match(/\d[\d,]*\d/g) ?? []).map((each) => Number(each.replaceAll(',', '')));
  expect(said).toEqual(at('observability/tracing.ts', 'shutdownTimeoutMs', 'exportTimeoutMs').map(defaultOf));
});
