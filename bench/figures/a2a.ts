import { type Message, StreamResponse } from '@a2a-js/sdk';
import { ServerCallContext } from '@a2a-js/sdk/server';
import { agent, InMemoryStateStore } from 'millrace';
import { a2aRequestHandler } from 'millrace/a2a';
import { scriptedLLM } from 'millrace/testing';
import { printRows } from '../table.ts';

const deltas = 4_000;
const runs = 5;
const tokens = Array.from({ length: deltas }, (_, index) => `token ${index} `);

/** One task of many one-token deltas, journaled, streamed to a client of A2A, and each of its events written as JSON. */
export async function measureA2A(): Promise<void> {
  const times: number[] = [];
  let events = 0;
  for (let run = 0; run < runs; run++) {
    const before = process.cpuUsage();
    events = await stream(`run-${run}`);
    const { user, system } = process.cpuUsage(before);
    times.push((user + system) / 1_000);
  }
  const [least = 0, , median = 0] = times.sort((a, b) => a - b);
  const measured = `${median.toFixed(0)} ms of CPU (least ${least.toFixed(0)}), ${events} events`;
  const title = `A task of ${deltas.toLocaleString('en')} one-token deltas over A2A`;
  printRows(title, [{ figure: 'handler, memory journal', measured, target: 'target < 1,000 ms' }]);
}

async function stream(messageId: string): Promise<number> {
  const served = agent({
    id: 'bench',
    provider: scriptedLLM([{ text: tokens }]),
    taskStateStore: new InMemoryStateStore(),
    enableTracing: false,
  });
  const handler = a2aRequestHandler({ agent: served, card });
  const sent = { tenant: '', message: message(messageId), configuration: undefined, metadata: undefined };
  let events = 0;
  for await (const response of handler.sendMessageStream(sent, new ServerCallContext())) {
    JSON.stringify(StreamResponse.toJSON(response));
    events++;
  }
  await served.close();
  return events;
}

const card = {
  name: 'bench',
  description: '',
  version: '1',
  supportedInterfaces: [],
  provider: undefined,
  capabilities: { streaming: true, extensions: [] },
  securitySchemes: {},
  securityRequirements: [],
  defaultInputModes: [],
  defaultOutputModes: [],
  skills: [],
  signatures: [],
};

function message(messageId: string): Message {
  const part = { content: { $case: 'text' as const, value: 'Go' }, mediaType: '', filename: '', metadata: undefined };
  const rest = { contextId: '', taskId: '', metadata: undefined, extensions: [], referenceTaskIds: [] };
  return { messageId, role: 1, parts: [part], ...rest };
}
