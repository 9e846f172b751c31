import type { Message } from '@a2a-js/sdk';
import type { Agent, AgentEvent } from 'millrace';
import { a2aRequestHandler } from 'millrace/a2a';
import { openAIHandler } from 'millrace/openai';
import { uiMessageHandler } from 'millrace/ui';
import { call, send } from '../a2a/bench.ts';
import { cardAt } from '../a2a/serving.ts';
import { ChatClient, chunksOf, said, scopeOf } from '../ui/chat-client.ts';
import { foldedOf } from '../ui/fold-ui-message.ts';
import { dataOf } from '../ui/frames.ts';

/** The texts of the answers in events, in order. */
export function textsIn(events: readonly AgentEvent[]): readonly string[] {
  const texts = new Map<string, string>();
  for (const event of events)
    if (event.kind === 'artifact-update') {
      const { artifactId, parts } = event.artifact;
      const text = parts.map((part) => (part.kind === 'text' ? part.text : '')).join('');
      texts.set(artifactId, event.append ? `${texts.get(artifactId) ?? ''}${text}` : text);
    }
  return [...texts.values()];
}

const textOf = (message: Pick<Message, 'parts'> | undefined) =>
  (message?.parts ?? []).map(({ content }) => (content?.$case === 'text' ? content.value : '')).join('');

async function asked(agent: Agent, path: string, body: object): Promise<string> {
  const handler = openAIHandler({ agents: [agent], scopeOf: () => 'ann' });
  const headers = { 'content-type': 'application/json' };
  const request = { method: 'POST', headers, body: JSON.stringify({ model: agent.id, ...body }) };
  const text = await (await handler(new Request(`http://localhost/v1/${path}`, request))).text();
  handler.close();
  return text;
}

const question = { messages: [{ role: 'user', content: 'q' }] };

/** What each front end shows of a turn of the agent: its texts, in order. */
export const frontEnds: Readonly<Record<string, (agent: Agent) => Promise<readonly string[]>>> = {
  async 'UI messages, streamed and stored'(agent) {
    const handler = uiMessageHandler({ agent, scopeOf, onDisconnect: 'continue', recoverEveryMs: 0 });
    const client = new ChatClient(handler);
    const live = foldedOf(await chunksOf(await client.post('c', said('m1', 'q')))).parts;
    const [, stored] = await (await client.ask('GET', '/c/messages')).json();
    handler.close();
    const texts = (parts: readonly { readonly type: string; readonly text?: string }[]) =>
      parts.flatMap(({ type, text }) => (type === 'text' && text !== undefined ? [text] : []));
    return [...texts(live), ...texts(stored.parts)];
  },
  async 'a completion'(agent) {
    const { choices } = JSON.parse(await asked(agent, 'chat/completions', question));
    return choices[0].message.content.split('\n\n');
  },
  async 'a streamed completion'(agent) {
    const chunks = dataOf(await asked(agent, 'chat/completions', { ...question, stream: true })).filter(
      (each) => each !== '[DONE]',
    );
    const deltas = chunks
      .map((each) => JSON.parse(each))
      .map(({ choices, error }) => error?.code ?? choices[0]?.delta.content ?? '');
    return deltas.join('').split('\n\n');
  },
  async 'a response'(agent) {
    const { output } = JSON.parse(await asked(agent, 'responses', { input: 'q' }));
    return output.flatMap((item: { type: string; content: { text: string }[] }) =>
      item.type === 'message' ? item.content.map(({ text }) => text) : [],
    );
  },
  async 'a streamed response'(agent) {
    const events = dataOf(await asked(agent, 'responses', { input: 'q', stream: true })).filter(
      (each) => each !== '[DONE]',
    );
    const last = JSON.parse(events.at(-1) ?? '');
    return last.response.output.flatMap((item: { type: string; content: { text: string }[] }) =>
      item.type === 'message' ? item.content.map(({ text }) => text) : [],
    );
  },
  async 'the artifacts and the history of an A2A task'(agent) {
    const handler = a2aRequestHandler({ agent, card: cardAt('http://x') });
    const { id } = await send(handler, 'q');
    const task = await handler.getTask({ id, tenant: '', historyLength: undefined }, call());
    return [...task.artifacts.map(textOf), ...task.history.filter(({ role }) => role === 2).map(textOf)];
  },
};
