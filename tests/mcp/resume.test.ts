import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from '@jest/globals';
import { textOf } from 'millrace';
import { AgentLoop } from 'millrace/internals';
import { mcpTools } from 'millrace/mcp';
import { scriptedLLM } from 'millrace/testing';
import { eventually } from '../eventually.ts';
import { ChildPrograms, kill } from '../stores/lmdb/child-programs.ts';
import { TemporaryStores } from '../stores/lmdb/temporary-stores.ts';

const programs = new ChildPrograms('tests/mcp/children');
const stores = new TemporaryStores();
const server = fileURLToPath(new URL('servers/odd-server.mjs', import.meta.url));
afterAll(() => Promise.all([programs.clear(), stores.clear()]));

describe('a process that dies while MCP tools run', () => {
  it('leaves calls in doubt that go on as the annotations say: read again, asked about, told to the model as unknown', async () => {
    const path = stores.path();
    const ledger = join(stores.path(), 'ledger');
    const ran = () => readFileSync(ledger, { encoding: 'utf8', flag: 'a+' }).match(/ran \w+/g) ?? [];
    const child = programs.start('turn', server, ledger, path);
    await eventually(() => ran().length === 3);
    await kill(child);

    const tools = mcpTools({
      servers: { odd: { command: process.execPath, args: [server], env: { LEDGER: ledger } } },
    });
    const taskStateStore = stores.open({ path });
    const config = {
      agentId: 'assistant',
      llmProvider: scriptedLLM([{ text: 'done' }]),
      toolProviders: [tools],
      taskStateStore,
    };
    await eventually(() => !taskStateStore.list().some(({ held }) => held));
    const { questions } = await AgentLoop.resume('t', config).result();
    expect(questions).toMatchObject([{ id: '1:1', kind: 'in-doubt', toolName: 'odd__slow_drop' }]);
    const answers = { '1:1': { outcome: 'applied', content: 'It is gone.' } };
    const { messages } = await AgentLoop.resume('t', config, { answers }).result();
    await tools.close();
    const results = messages.filter(({ role }) => role === 'tool').map(({ content }) => textOf(content));
    expect(results).toEqual(['slow_read done', 'It is gone.', expect.stringContaining('OUTCOME_UNKNOWN')]);
    expect(ran().sort()).toEqual(['ran slow_drop', 'ran slow_read', 'ran slow_read', 'ran slow_send']);
  });
});
