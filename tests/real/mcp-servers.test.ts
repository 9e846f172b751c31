import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from '@jest/globals';
import { InMemoryStateStore, type ToolResult, textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { type McpTools, mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { toolCall, toolContext } from '../tools/tool-context.ts';
import { describeReal } from './real-part.ts';

const packages = fileURLToPath(new URL('../../node_modules/@modelcontextprotocol/', import.meta.url));
const everything = join(packages, 'server-everything/dist/index.js');
const filesystem = join(packages, 'server-filesystem/dist/index.js');
const folder = realpathSync(mkdtempSync(join(tmpdir(), 'mcp-files-')));

let remote: ChildProcess;
let url: string;
let tools: McpTools;

beforeAll(async () => {
  writeFileSync(join(folder, 'note.txt'), 'Water the plants.');
  const port = await freePort();
  remote = spawn(process.execPath, [everything, 'streamableHttp'], {
    env: { PATH: process.env['PATH'], PORT: String(port) },
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  await Promise.race([once(remote.stderr ?? remote, 'data'), once(remote, 'exit')]);
  url = `http://127.0.0.1:${port}/mcp`;
  tools = mcpTools({
    servers: {
      near: { command: process.execPath, args: [everything, 'stdio'], resources: true, prompts: true, roots: [folder] },
      far: { url, timeoutMs: 5_000 },
      files: { command: process.execPath, args: [filesystem, folder], required: true },
    },
  });
  await tools.connect();
});

afterAll(async () => {
  await tools.close();
  remote.kill();
});

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address !== null ? address.port : 0;
}

async function call(
  name: string,
  args: object = {},
  progress: (update: unknown) => void = () => {},
): Promise<ToolResult> {
  return tools.executeTool(
    toolCall(name, args),
    toolContext({ arguments: args, progress, idempotencyKey: `task:${name}` }),
  );
}

describeReal(['mcp'], 'real MCP servers', () => {
  it('S1-51 the tools of servers over stdio and streamable HTTP are callable in one turn', async () => {
    const calls = [
      { name: 'near__get-sum', arguments: { a: 2, b: 3 } },
      { name: 'far__echo', arguments: { message: 'hello' } },
      { name: 'files__read_text_file', arguments: { path: join(folder, 'note.txt') } },
      { name: 'files__write_file', arguments: { path: join(folder, 'new.txt'), content: 'Done.' } },
      { name: 'near__get-sum', arguments: { a: 'two', b: 3 } },
    ];
    const loop = new AgentLoop({
      agentId: 'assistant',
      llmProvider: scriptedLLM([{ toolCalls: calls }, { text: 'All done.' }]),
      toolProviders: [tools],
    });
    const { text, messages } = await loop.startTurn([{ role: 'user', content: 'go' }]).result();
    expect(text).toBe('All done.');
    const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
    expect(results).toEqual([
      'The sum of 2 and 3 is 5.',
      'Echo: hello',
      'Water the plants.',
      expect.stringContaining('Successfully wrote'),
      expect.stringMatching(/arguments\.a must be number/),
    ]);
    expect(readFileSync(join(folder, 'new.txt'), 'utf8')).toBe('Done.');
  });

  it('have the policies that their annotations say', async () => {
    const definitions = await tools.getTools(toolContext());
    const policyOf = (name: string) => definitions.find((each) => each.function.name === name);
    expect(definitions.length).toBeGreaterThan(40);
    expect(policyOf('near__echo')).toMatchObject({ readOnly: true, onInDoubt: 'retry' });
    expect(policyOf('files__read_text_file')).toMatchObject({ readOnly: true });
    expect(policyOf('files__write_file')).toMatchObject({ idempotent: true, onInDoubt: 'retry' });
    expect(policyOf('files__edit_file')).toMatchObject({ onInDoubt: 'ask' });
  });

  it('give pictures, structured content, links and resources', async () => {
    expect((await call('near__get-tiny-image')).content).toMatchObject([
      { type: 'text' },
      { type: 'image_url', image_url: { url: expect.stringMatching(/^data:image\/png;base64,/) } },
      { type: 'text' },
    ]);
    const { content } = await call('near__get-structured-content', { location: 'Chicago' });
    expect(JSON.parse(String(content))).toMatchObject({ temperature: 36 });
    const links = await call('far__get-resource-links', { count: 1 });
    expect(links.content).toContain('"resource":"demo://resource/dynamic/');
    const list = JSON.parse(String((await call('near__list_resources')).content));
    expect(list).toMatchObject({ resources: expect.any(Array), templates: expect.any(Array) });
    const read = await call('near__read_resource', { uri: list.resources[0].uri });
    expect(textOf(read.content).length).toBeGreaterThan(20);
  });

  it('give their prompts with arguments', async () => {
    const { prompts } = JSON.parse(String((await call('near__list_prompts')).content));
    const withArguments = prompts.find((each: { readonly arguments?: readonly object[] }) => each.arguments?.length);
    const values = Object.fromEntries(
      withArguments.arguments.map(({ name }: { readonly name: string }) => [name, 'Rome']),
    );
    const { content } = await call('near__get_prompt', { name: withArguments.name, arguments: values });
    expect(textOf(content)).toMatch(/^user:\n.*Rome/s);
    await expect(call('near__get_prompt', { name: 'no such prompt' })).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  });

  it('show progress, over both ways', async () => {
    for (const name of ['near__trigger-long-running-operation', 'far__trigger-long-running-operation']) {
      const updates: unknown[] = [];
      const { success } = await call(name, { duration: 0.06, steps: 3 }, (update) => updates.push(update));
      expect(success).toBe(true);
      expect(updates).toContainEqual({ type: 'mcp-progress', progress: 2, total: 3 });
    }
  });

  it('are told of the roots', async () => {
    expect((await call('near__get-roots-list')).content).toContain(folder);
  });

  it('ask over HTTP, two at once, each on the stream of its call', async () => {
    const config = {
      agentId: 'assistant',
      llmProvider: scriptedLLM([
        { toolCalls: [{ name: 'far__trigger-elicitation-request' }, { name: 'far__trigger-elicitation-request' }] },
        { text: 'done' },
      ]),
      toolProviders: [tools],
      taskStateStore: new InMemoryStateStore(),
    };
    const turn = new AgentLoop(config).startTurn([{ role: 'user', content: 'go' }]);
    const { questions } = await turn.result();
    expect(questions.map(({ id }) => id).sort()).toEqual(['1:0', '1:1']);
    const answers = { '1:0': { action: 'accept', content: { name: 'First' } }, '1:1': { action: 'decline' } };
    const { messages } = await AgentLoop.resume(turn.taskId, config, { answers }).result();
    const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
    expect(results).toEqual([expect.stringContaining('- Name: First'), expect.stringContaining('User declined')]);
  });

  it('ask the model, over both ways, and the turn counts what that took', async () => {
    const usage = { promptTokens: 7, completionTokens: 3, totalTokens: 10 };
    const sampling = {
      provider: scriptedLLM([
        { text: 'Otters.', usage },
        { text: 'Otters.', usage },
      ]),
    };
    const asking = mcpTools({
      servers: {
        near: { command: process.execPath, args: [everything, 'stdio'], sampling },
        far: { url, sampling },
      },
    });
    try {
      const names = ['near__trigger-sampling-request', 'far__trigger-sampling-request'];
      // The server registers them once it knows what its client can do, and says so.
      let offered: readonly string[] = [];
      while (!names.every((name) => offered.includes(name)))
        offered = (await asking.getTools(toolContext())).map((each) => each.function.name);
      const toolCalls = names.map((name) => ({ name, arguments: { prompt: 'Which animal?' } }));
      const loop = new AgentLoop({
        agentId: 'assistant',
        llmProvider: scriptedLLM([
          { toolCalls, usage },
          { text: 'done', usage },
        ]),
        toolProviders: [asking],
      });
      const ended = await loop.startTurn([{ role: 'user', content: 'go' }]).result();
      const results = ended.messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
      expect(results).toEqual([expect.stringContaining('Otters.'), expect.stringContaining('Otters.')]);
      expect(ended.usage.totalTokens).toBe(40);
    } finally {
      await asking.close();
    }
  });

  it('are told of a cancel, and go on', async () => {
    const controller = new AbortController();
    const running = tools.executeTool(
      toolCall('far__trigger-long-running-operation'),
      toolContext({
        arguments: { duration: 60, steps: 600 },
        signal: controller.signal,
        progress: () => controller.abort(),
      }),
    );
    await expect(running).rejects.toMatchObject({ code: 'CANCELED' });
    expect((await call('far__echo', { message: 'still there' })).content).toBe('Echo: still there');
  });

  it('that are killed, or fall silent, cost one error each, and are started again', async () => {
    const pidFile = join(folder, 'pid');
    const start = `echo $$ > '${pidFile}'; exec '${process.execPath}' '${everything}' stdio`;
    const mortal = mcpTools({
      servers: { mortal: { command: 'sh', args: ['-c', start], timeoutMs: 3_000 } },
      reconnect: { initialMs: 1, maxMs: 1 },
    });
    const pid = () => Number(readFileSync(pidFile, 'utf8'));
    const run = (name: string, args: object, progress = () => {}) =>
      mortal.executeTool(toolCall(`mortal__${name}`), toolContext({ arguments: args, progress }));
    const long = { duration: 60, steps: 600 };
    try {
      await mortal.connect();
      await run('echo', { message: 'first' });
      const first = pid();
      const killed = run('trigger-long-running-operation', long, () => process.kill(first, 'SIGKILL'));
      await expect(killed).rejects.toMatchObject({
        code: 'TOOL_FAILED',
        message: expect.stringContaining('went away before it answered; the call may or may not have taken effect'),
      });
      expect((await run('echo', { message: 'second' })).content).toBe('Echo: second');
      const second = pid();
      const silent = run('trigger-long-running-operation', long, () => process.kill(second, 'SIGSTOP'));
      await expect(silent).rejects.toMatchObject({ code: 'TOOL_TIMEOUT' });
      expect((await run('echo', { message: 'third' })).content).toBe('Echo: third');
      expect(new Set([first, second, pid()]).size).toBe(3);
      expect(() => process.kill(second, 0)).toThrow('ESRCH');
    } finally {
      await mortal.close();
    }
  });

  it('may want a task for a call', async () => {
    const { content } = await call('near__simulate-research-query', { topic: 'otters' });
    expect(content).toContain('otters');
  });
});
