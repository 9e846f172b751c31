import { afterEach, describe, expect, it } from '@jest/globals';
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import type { McpProtocol, McpTools } from 'millrace/mcp';
import { recordSpans } from 'millrace/testing';
import { eventually, testLimitMs } from '../eventually.ts';
import { oddServer } from '../mcp/odd-server.ts';
import { callOf, type SdkServer, sdkServer, toolsOf } from '../mcp/sdk-server.ts';
import { thrownBy } from '../tools/thrown.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

async function started(...[options]: Parameters<typeof sdkServer>): Promise<SdkServer> {
  const server = await sdkServer(options);
  open.push(server);
  return server;
}

function client(
  server: SdkServer,
  protocol: McpProtocol,
  more: { timeoutMs?: number; maxTimeMs?: number } = {},
): McpTools {
  const tools = toolsOf(server, { protocol, ...more });
  open.push(tools);
  return tools;
}

type Row = readonly [version: 'v1' | 'v2', way: 'stdio' | 'http', protocol: McpProtocol, revision: string];

const rows: readonly Row[] = [
  ['v1', 'stdio', 'auto', '2025-11-25'],
  ['v1', 'http', 'auto', '2025-11-25'],
  ['v1', 'http', 'legacy', '2025-11-25'],
  ['v2', 'stdio', 'auto', '2026-07-28'],
  ['v2', 'http', 'auto', '2026-07-28'],
  ['v2', 'stdio', '2026-07-28', '2026-07-28'],
  ['v2', 'http', '2026-07-28', '2026-07-28'],
  ['v2', 'stdio', 'legacy', '2025-11-25'],
  ['v2', 'http', 'legacy', '2025-11-25'],
];

/** Without sessions, a revision before 2026-07-28 cannot say over HTTP which request a cancel means. */
const cancelling = rows.filter(
  ([version, way, protocol]) => !(version === 'v2' && way === 'http' && protocol === 'legacy'),
);

describe('a server of the official SDK', () => {
  it.each(rows)(
    'P-01 of %s over %s, protocol "%s", gives its tools, shows progress, and the span names %s',
    async (version, way, protocol, revision) => {
      const tools = client(await started({ version, way }), protocol);
      const spans = recordSpans();
      try {
        const span = trace.getTracer('test').startSpan('tool[add]', {}, ROOT_CONTEXT);
        const traceContext = trace.setSpan(ROOT_CONTEXT, span);
        expect(await callOf(tools, 'add', { arguments: { a: 2, b: 3 }, traceContext })).toMatchObject({ content: '5' });
        span.end();
        expect(spans.spans()[0]?.attributes).toMatchObject({
          'mcp.protocol.version': revision,
          'network.transport': way === 'stdio' ? 'pipe' : 'tcp',
        });
      } finally {
        await spans.dispose();
      }
      const updates: unknown[] = [];
      const progress = (update: unknown) => updates.push(update);
      expect(await callOf(tools, 'steps', { progress })).toMatchObject({ content: 'all steps' });
      expect(updates).toEqual([1, 2, 3].map((step) => ({ type: 'mcp-progress', progress: step, total: 3 })));
    },
  );

  it.each(cancelling)(
    'P-06 of %s over %s, protocol "%s", sees a cancel and both limits of time, each with its own error',
    async (version, way, protocol) => {
      const server = await started({ version, way });
      const tools = client(server, protocol);
      const cancelled = () => server.ledger().filter((line) => line === 'wait cancelled').length;
      const controller = new AbortController();
      const progress = () => controller.abort();
      const running = callOf(tools, 'wait', { signal: controller.signal, progress });
      expect(await thrownBy(() => running)).toMatchObject({ code: 'CANCELED' });
      await eventually(() => cancelled() === 1);
      for (const [limits, ms] of [
        [{ timeoutMs: 150 }, 150],
        [{ maxTimeMs: 140 }, 140],
      ] as const) {
        const limited = client(server, protocol, limits);
        const error = await thrownBy(() => callOf(limited, 'wait'));
        expect(error).toMatchObject({ code: 'TOOL_TIMEOUT', message: expect.stringContaining(`within ${ms} ms`) });
      }
      await eventually(() => cancelled() === 3);
    },
  );
});

describe('a server that does not speak the revision that is asked for', () => {
  it.each(['stdio', 'http'] as const)('cannot be used over %s, and the error says so', async (way) => {
    const old = client(await started({ version: 'v1', way }), '2026-07-28');
    expect((await thrownBy(() => old.connect())).message).toMatch(/does not speak the protocol revision/);
    const strict = client(await started({ version: 'v2', way, env: { LEGACY: 'reject' } }), 'legacy');
    expect(await thrownBy(() => strict.connect())).toMatchObject({ code: 'TOOL_FAILED' });
  });
});

describe('a process that does not answer what it does not know', () => {
  it.each(['exit', 'silent'])('P-05 but does this: %s, is used all the same, and asked once only', async (BEFORE) => {
    const odd = oddServer({ env: { BEFORE }, connectTimeoutMs: testLimitMs });
    open.push(odd.tools);
    expect((await odd.call('echo', { text: 'first' })).content).toBe('first');
    await thrownBy(() => odd.call('die'));
    expect((await odd.call('echo', { text: 'second' })).content).toBe('second');
    const lines = odd.ledger();
    expect(lines.filter((line) => line === 'asked for its revisions')).toHaveLength(1);
    expect(lines.filter((line) => line.startsWith('started'))).toHaveLength(BEFORE === 'exit' ? 3 : 2);
  });
});
