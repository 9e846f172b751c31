import { afterAll, describe, expect, it } from '@jest/globals';
import { textOf } from 'millrace';
import {
  AgentLoop,
  escapeText,
  foreignSchemaChecker,
  httpError,
  jsonSchemaChecker,
  modelServer,
  withoutSecrets,
} from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { oddServer } from '../mcp/odd-server.ts';
import { prose, timesAsLong } from '../processor-time.ts';

const odd = oddServer({ env: { TRAPS: '1' } });
afterAll(() => odd.tools.close());

const backtracking = `${'a'.repeat(40)}!`;
const pairs = 40_000;
/** Kinds of schemas that take for ever, and arguments that spring them. */
const traps: readonly (readonly [string, object, object])[] = [
  ['pattern', { text: backtracking }, { text: backtracking }],
  ['member', { [backtracking]: 'x' }, { [backtracking]: 'x' }],
  ['reference', {}, {}],
  ['pairs', { list: Array.from({ length: pairs }, (_, id) => ({ id })) }, { pairs }],
];

/** Runs one tool in a turn; says what the model reads of it. Ends only if the check does. */
async function called(name: string, args: object): Promise<string> {
  const llmProvider = scriptedLLM([
    { toolCalls: [{ name: `odd__${name}`, arguments: JSON.stringify(args) }] },
    { text: 'done' },
  ]);
  const turn = new AgentLoop({ agentId: 'worker', llmProvider, toolProviders: [odd.tools] }).startTurn([
    { role: 'user', content: 'Go.' },
  ]);
  turn.subscribe();
  const { messages } = await turn.result();
  await turn.settled;
  const told = messages.find(({ role }) => role === 'tool');
  return told ? textOf(told.content) : '';
}

describe('a schema of an MCP server', () => {
  it.each(traps)('H-11 cannot freeze the process where it checks arguments: %s', async (kind, args) => {
    const told = await called(`in_${kind}`, args);
    expect(told).toMatch(/a check by the JSON Schema of tool "in_\w+" of the MCP server "odd" takes more than 500 ms/);
  });

  it.each(traps)('H-11 cannot freeze the process where it checks an output: %s', async (kind, _, args) => {
    const told = await called(`out_${kind}`, args);
    expect(told).toMatch(/gave structured content that cannot be checked: .* takes more than 500 ms/);
  });

  it('H-11 is not tried a third time once it took too long twice', async () => {
    const schema = { type: 'object', properties: { text: { type: 'string', pattern: '^(a+)+$' } } };
    const check = foreignSchemaChecker(schema, 'a tool of a server');
    let reads = 0;
    const args = {
      get text() {
        reads++;
        return backtracking;
      },
    };
    const late = async () => {
      const before = reads;
      await expect((async () => check(args))()).rejects.toMatchObject({
        code: 'TOOL_TIMEOUT',
        message: expect.stringContaining('takes more than 500 ms'),
      });
      return reads - before;
    };
    expect(await late()).toBeGreaterThan(0);
    expect(await late()).toBeGreaterThan(0);
    expect(await late()).toBe(0);
  });

  it('H-11 is tried again where the process did not run meanwhile', async () => {
    const check = jsonSchemaChecker(
      { type: 'object', properties: { text: { type: 'string', pattern: '^a+$' } } },
      'a tool of a busy machine',
    );
    let reads = 0;
    const stopped = {
      get text() {
        // As a process that is stopped: time passes, and it uses none.
        if (reads++ === 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
        return 'aaa';
      },
    };
    expect(await check(stopped)).toMatchObject({ ok: true });
    expect(reads).toBeGreaterThan(1);
  });

  it('H-11 checks what it is meant to check as any other', async () => {
    expect(await called('in_member', { b: 7 })).toBe('ran');
    expect(await called('in_member', { aa: 7 })).toContain('arguments.aa must be string');
    expect(await called('out_pairs', { list: [{ id: 1 }, { id: 1 }] })).toContain('is not what "out_pairs" promises');
  });
});

describe('text that somebody else wrote', () => {
  const long = 300_000;
  const server = modelServer({ address: 'http://127.0.0.1:1', model: 'm', secrets: [] });
  const page = (text: string) =>
    httpError(server, { status: 500, headers: new Headers(), text: `<html>${text}`, now: 0 });
  const redacted = (text: string) => withoutSecrets(text, (given) => given);
  it.each<readonly [string, string, (text: string) => unknown]>([
    ['tokens that never end', 'eyJ-'.repeat(long), redacted],
    ['schemes that never end', 'a.'.repeat(long), redacted],
    ['blanks in the middle', `x${' '.repeat(long)}x`, escapeText],
    ['a page of tags that never end', '<title'.repeat(long), page],
    ['a page of angle brackets', '<'.repeat(long), page],
  ])('H-11 is read in time that grows with its length: %s', async (_, text, read) => {
    const ordinary = prose(text.length);
    const compared = { run: () => read(text), base: () => read(ordinary), most: 300 };
    expect(await timesAsLong(compared)).toBeLessThan(300);
  });

  it('H-11 still loses its secrets', () => {
    const token = `eyJ${'x'.repeat(20)}.${'y'.repeat(20)}.z`;
    expect(withoutSecrets(`a-${token} and (${token})`, (text) => text)).toBe('a-eyJ[redacted] and (eyJ[redacted])');
    expect(withoutSecrets('see redis+tls://me:sesame@h', (text) => text)).toBe('see redis+tls://[redacted]@h');
  });
});
