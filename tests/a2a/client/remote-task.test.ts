import { type Artifact, type StreamResponse, TaskState } from '@a2a-js/sdk';
import { expect, it } from '@jest/globals';
import fc from 'fast-check';
import type { LLMChunk } from 'millrace';
import { RemoteTask } from 'millrace/internals';

function artifactOf(artifactId: string, text: string): Artifact {
  const content = { $case: 'text' as const, value: text };
  const part = { content, metadata: undefined, filename: '', mediaType: '' };
  return { artifactId, name: '', description: '', parts: [part], metadata: undefined, extensions: [] };
}

function update(artifactId: string, text: string, append = false): StreamResponse {
  const value = {
    taskId: 't',
    contextId: 'c',
    artifact: artifactOf(artifactId, text),
    append,
    lastChunk: false,
    metadata: undefined,
  };
  return { payload: { $case: 'artifactUpdate', value } };
}

function whole(artifacts: readonly Artifact[]): StreamResponse {
  const status = { state: TaskState.TASK_STATE_WORKING, message: undefined, timestamp: undefined };
  const value = { id: 't', contextId: 'c', status, artifacts: [...artifacts], history: [], metadata: undefined };
  return { payload: { $case: 'task', value } };
}

/** What a reader has in the end: the chunks behind the last attempt that was discarded. */
function shownBy(chunks: readonly LLMChunk[]): string {
  const begun = chunks.findLastIndex((chunk) => chunk.type === 'attempt' && chunk.state === 'begin');
  return chunks.slice(begun + 1).reduce((text, chunk) => (chunk.type === 'text' ? text + chunk.text : text), '');
}

const id = fc.constantFrom('a', 'b', 'c');
const text = fc.constantFrom('', 'One', ' two', '\n');
const anyUpdate = fc.oneof(
  { weight: 8, arbitrary: fc.tuple(id, text, fc.boolean()).map((given) => update(...given)) },
  { weight: 1, arbitrary: fc.array(fc.tuple(id, text)).map((all) => whole(all.map((each) => artifactOf(...each)))) },
);

it('shows the text of a task, whatever is written in whichever order', () => {
  fc.assert(
    fc.property(fc.array(anyUpdate), (updates) => {
      const task = new RemoteTask();
      const chunks = updates.flatMap((each) => task.take(each));
      expect(shownBy(chunks)).toBe(task.text);
    }),
  );
});

it('takes a hundred thousand artifacts, each without a look at all others', () => {
  const task = new RemoteTask();
  const count = 100_000;
  let shown = 0;
  for (let index = 0; index < count; index++)
    for (const chunk of task.take(update(`a${index}`, 'text'))) if (chunk.type === 'text') shown += chunk.text.length;
  expect(shown).toBe(task.text.length);
  expect(task.text).toHaveLength(count * 6 - 2);
});
