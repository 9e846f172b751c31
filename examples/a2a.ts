import { type AgentEvent, AgentLoop, InMemoryStateStore, type TaskStateStore } from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import { filter, map, type Observable, take } from 'rxjs';

type A2AEvent = Extract<AgentEvent, { kind: 'task' | 'status-update' | 'artifact-update' }>;

const isA2A = (event: AgentEvent): event is A2AEvent => !event.kind.startsWith('internal:');

/** As A2A 0.3 writes it: what the protocol does not know goes into the metadata, or stays here. */
function toWire(event: A2AEvent): object {
  const { timestamp: _, cursor, ...rest } = event;
  if (rest.kind === 'task') {
    const { taskId: _taskId, agentId: _agentId, ...task } = rest;
    return task;
  }
  if (rest.kind === 'artifact-update') return { ...rest, metadata: { cursor } };
  const { reason, error, questions: _questions, ...update } = rest;
  return { ...update, metadata: { cursor, reason, code: error?.code } };
}

/** What `message/stream` and `tasks/resubscribe` send. */
const wireEvents = (taskId: string, options: { store: TaskStateStore; from?: string }): Observable<object> =>
  AgentLoop.observe(taskId, options).pipe(filter(isA2A), map(toWire));

const send = (event: object): void => console.log(JSON.stringify(event));

const store = new InMemoryStateStore();
const llmProvider = scriptedLLM([{ text: ['Hello ', 'there.'] }]);
const loop = new AgentLoop({ agentId: 'greeter', llmProvider, taskStateStore: store });

// Detached: a client that disconnects cancels nothing.
const turn = loop.startTurn([{ role: 'user', content: 'Hi' }], { taskId: 'hello', contextId: 'c', detached: true });
await turn.settled;

await wireEvents('hello', { store }).pipe(take(2)).forEach(send);

// It comes back, and goes on behind the cursor that it saw last.
console.log('again, behind 1-0.2:');
await wireEvents('hello', { store, from: '1-0.2' }).forEach(send);
