import { afterAll, afterEach, describe, expect, it } from '@jest/globals';
import { propagation } from '@opentelemetry/api';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import type { McpProcessOptions } from 'millrace/mcp';
import { recordSpans, scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { thrownBy } from '../tools/thrown.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';
import { type OddServer, oddServer } from './odd-server.ts';

const open: OddServer[] = [];

function server(options: Partial<McpProcessOptions> = {}): OddServer {
  const made = oddServer(options);
  open.push(made);
  return made;
}

afterEach(async () => {
  await Promise.all(open.splice(0).map(({ tools }) => tools.close()));
});

/** One server for all tests that leave it as it was. */
const shared = oddServer({ env: { SECRET: 'sesame-open-sesame' } });
afterAll(() => shared.tools.close());

function startsOf({ ledger }: OddServer): number {
  return ledger().filter((line) => line.startsWith('started')).length;
}

describe('a call of an MCP tool', () => {
  it('gives the text of the result, and a failed result as a failure', async () => {
    const odd = shared;
    expect(await odd.call('echo', { text: 'hello' })).toEqual({
      toolCallId: 'call_1',
      content: 'hello',
      success: true,
    });
    expect(await odd.call('failing')).toMatchObject({
      content: 'the disk is full',
      success: false,
      error: 'the disk is full',
    });
    expect(await odd.call('data')).toMatchObject({ content: '{"celsius":4}', success: true });
  });

  it('shows progress, which starts its time anew', async () => {
    const odd = server({ timeoutMs: 10_000 });
    const updates: unknown[] = [];
    const { content } = await odd.call(
      'steps',
      { count: 4, everyMs: 3_000 },
      { progress: (update) => updates.push(update) },
    );
    expect(content).toBe('all steps');
    expect(updates).toHaveLength(4);
    expect(updates[3]).toEqual({ type: 'mcp-progress', progress: 4, total: 4, message: 'step 4' });
  });

  it('is ended by maxTimeMs in spite of progress', async () => {
    const odd = server({ maxTimeMs: 300 });
    const error = await thrownBy(() => odd.call('steps', { count: 1_000, everyMs: 50 }));
    expect(error).toMatchObject({ code: 'TOOL_TIMEOUT', message: expect.stringContaining('within 300 ms') });
  });

  it('tells the server that it is cancelled, and does not wait for it', async () => {
    const odd = server();
    await odd.tools.connect();
    const controller = new AbortController();
    const running = odd.call(
      'steps',
      { count: 1_000 },
      { signal: controller.signal, progress: () => controller.abort() },
    );
    expect(await thrownBy(() => running)).toMatchObject({ code: 'CANCELED' });
    await eventually(() => odd.ledger().some((line) => line.startsWith('cancelled')));
    expect((await odd.call('echo', { text: 'still there' })).content).toBe('still there');
    expect(startsOf(odd)).toBe(1);
  });

  it('costs one error where the server dies, and the next call starts it again', async () => {
    const odd = server();
    expect((await odd.call('echo', { text: 'before' })).content).toBe('before');
    const error = await thrownBy(() => odd.call('die'));
    expect(error).toMatchObject({
      code: 'TOOL_FAILED',
      retryable: true,
      message: 'the MCP server "odd" went away before it answered; the call may or may not have taken effect',
    });
    expect((await odd.call('echo', { text: 'again' })).content).toBe('again');
    expect(startsOf(odd)).toBe(2);
  });

  it('costs one error where the server never answers, and a server that answers nothing at all is started again', async () => {
    const odd = server({ timeoutMs: 10_000 });
    expect((await odd.call('echo', { text: 'before' })).content).toBe('before');
    expect(await thrownBy(() => odd.call('never'))).toMatchObject({ code: 'TOOL_TIMEOUT' });
    expect((await odd.call('echo', { text: 'the same process' })).content).toBe('the same process');
    expect(startsOf(odd)).toBe(1);
    expect(await thrownBy(() => odd.call('hang'))).toMatchObject({ code: 'TOOL_TIMEOUT' });
    expect((await odd.call('echo', { text: 'another process' })).content).toBe('another process');
    expect(startsOf(odd)).toBe(2);
  });

  it('does not pay for the time in which a server that fell silent is looked after', async () => {
    const odd = server({ timeoutMs: 10_000 });
    await odd.call('echo', { text: 'before' });
    expect(await thrownBy(() => odd.call('hang'))).toMatchObject({ code: 'TOOL_TIMEOUT' });
    const args = { text: 'in the same turn' };
    const result = await odd.tools.executeTool(toolCall('odd__echo', args), toolContext({ arguments: args }));
    expect(result.content).toBe('in the same turn');
  });

  it('leaves a server alone for a while that dies each time before it has answered a call', async () => {
    const odd = server();
    await thrownBy(() => odd.call('die'));
    expect(await thrownBy(() => odd.call('echo', { text: '' }))).toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringMatching(/"odd" cannot be used: it ended; the next try is in 1 s$/),
    });
  });

  it('passes over lines that are no messages', async () => {
    expect((await shared.call('garbage')).content).toBe('behind the garbage');
  });

  it('fails for a result that the protocol does not allow, or that is not what the tool promises', async () => {
    const odd = shared;
    expect(await thrownBy(() => odd.call('shapeless'))).toMatchObject({
      message: 'the MCP server "odd" answered with what the protocol does not allow',
    });
    expect(await thrownBy(() => odd.call('liar'))).toMatchObject({
      message: 'the MCP server "odd" gave structured content that is not what "liar" promises',
    });
  });

  it('passes on what a server says of its error, but no value of its environment', async () => {
    const odd = shared;
    const error = await thrownBy(() => odd.call('refuse'));
    expect(error).toMatchObject({
      message: 'the MCP server "odd" answered with an error: no such thing, says [redacted]',
    });
    const failed = 'no such token: [redacted]';
    expect(await odd.call('leaking')).toMatchObject({ success: false, content: failed, error: failed });
  });

  it('hands on its own environment only as far as it is harmless', async () => {
    process.env['SOME_API_KEY'] = 'not for servers';
    try {
      const { content } = await shared.call('env');
      expect(content).toContain('"PATH"');
      expect(content).not.toContain('not for servers');
    } finally {
      delete process.env['SOME_API_KEY'];
    }
  });

  it('names the call for the server: the same key in every attempt', async () => {
    const { content } = await shared.call('meta', {}, { idempotencyKey: 'task:3:1' });
    expect(JSON.parse(String(content))).toMatchObject({ 'millrace/idempotency-key': 'task:3:1' });
  });

  it('runs calls side by side', async () => {
    const odd = shared;
    await odd.tools.connect();
    const texts = Array.from({ length: 20 }, (_, index) => `call ${index}`);
    const results = await Promise.all(
      texts.map((text, n) => odd.call('echo', { text }, { idempotencyKey: `task:1:${n}` })),
    );
    expect(results.map(({ content }) => content)).toEqual(texts);
  });
});

describe('the list of MCP tools', () => {
  it('is listed once, and again where the server says that it changed', async () => {
    const odd = server();
    await odd.tools.connect();
    const before = await odd.tools.getTools(toolContext());
    expect(odd.tools.getTools(toolContext())).toEqual(before);
    await odd.call('grow');
    const after = await odd.tools.getTools(toolContext());
    const added = after.filter((each) => !before.includes(each)).map((each) => each.function.name);
    expect(added).toContain('odd__grown');
    expect((await odd.call('grown')).content).toBe('new here');
  });

  it('has all pages, names in the letters of all vendors, and nothing that no model would take', async () => {
    const odd = shared;
    const names = (await odd.tools.getTools(toolContext())).map((each) => each.function.name);
    expect(names).toEqual(expect.arrayContaining(['odd__meta', 'odd__roots']));
    expect(names.filter((name) => !/^[a-zA-Z0-9_-]{1,64}$/.test(name))).toEqual([]);
    expect(new Set(names).size).toBe(names.length);
    expect(names).not.toContain('odd__broken');
    const dotted = names.find((name) => name.startsWith('odd__dots_and_slashes_'));
    expect((await odd.call(String(dotted).slice('odd__'.length))).content).toBe('odd name');
  });

  it('leaves tools out that are none, and names them', async () => {
    const warnings: unknown[] = [];
    const warn = (_message: string, fields?: object) => warnings.push(fields);
    const odd = oddServer({}, { debug: warn, info: warn, warn, error: warn });
    open.push(odd);
    const names = (await odd.tools.getTools(toolContext())).map((each) => each.function.name);
    expect(names).toContain('odd__echo');
    expect(names).not.toContain('odd__listless');
    const out = (tool: string, why: RegExp) => ({ server: 'odd', tool, why: expect.stringMatching(why) });
    expect(warnings).toEqual([
      out('listless', /^the protocol does not allow its inputSchema\.type$/),
      out('a tool without a name', /^the protocol does not allow its name$/),
      out('a tool without a name', /^it is null, no tool$/),
      out('broken', /schema/),
    ]);
  });

  it('holds only the tools that are wanted, by the prefix that is wanted', async () => {
    const odd = server({ tools: ['echo', 'meta', 'nothing'], prefix: 'x-' });
    const definitions = await odd.tools.getTools(toolContext());
    expect(definitions.map((each) => each.function)).toMatchObject([
      { name: 'x-meta', description: 'Does meta.' },
      { name: 'x-echo', description: 'Does echo.' },
    ]);
  });

  it('checks arguments by the schema of the server', async () => {
    const [echo] = await server({ tools: ['echo'] }).tools.getTools(toolContext());
    expect(await echo?.checkArguments?.({})).toEqual({ ok: false, message: 'arguments.text is required' });
    expect(await echo?.checkArguments?.({ text: 'a' })).toMatchObject({ ok: true });
  });
});

describe('the trace of an MCP call', () => {
  it('goes on at the server, and says on the span of the tool which server that was', async () => {
    const spans = recordSpans();
    propagation.setGlobalPropagator(new W3CTraceContextPropagator());
    const loop = new AgentLoop({
      agentId: 'assistant',
      llmProvider: scriptedLLM([{ toolCalls: [{ name: 'odd__meta' }] }, { text: 'done' }]),
      toolProviders: [shared.tools],
    });
    const { messages } = await loop.startTurn([{ role: 'user', content: 'go' }]).result();
    const meta = JSON.parse(textOf(messages.find(({ role }) => role === 'tool')?.content));
    const span = spans.spans().find(({ name }) => name === 'tool[odd__meta]');
    const { traceId, spanId } = span?.spanContext() ?? {};
    expect(meta.traceparent).toBe(`00-${traceId}-${spanId}-01`);
    expect(span?.attributes).toMatchObject({
      'mcp.method.name': 'tools/call',
      'mcp.server.name': 'odd',
      'mcp.protocol.version': expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      'network.transport': 'pipe',
    });
    expect(Object.keys(span?.attributes ?? {})).not.toContain('mcp.session.id');
    expect(spans.open()).toEqual([]);
    await spans.dispose();
    propagation.disable();
  });
});
