import type { Message, Part, SendMessageRequest, StreamResponse, Task } from '@a2a-js/sdk';

let count = 0;

export function text(value: string): Part {
  return { content: { $case: 'text', value }, mediaType: '', filename: '', metadata: undefined };
}

export function data(value: unknown): Part {
  return { content: { $case: 'data', value }, mediaType: '', filename: '', metadata: undefined };
}

/** A message of the user with an id of its own. */
export function message(parts: string | readonly Part[], rest: Partial<Message> = {}): Message {
  return {
    messageId: `message-${++count}`,
    contextId: '',
    taskId: '',
    role: 1,
    parts: typeof parts === 'string' ? [text(parts)] : [...parts],
    metadata: undefined,
    extensions: [],
    referenceTaskIds: [],
    ...rest,
  };
}

export function request(
  sent: Message,
  configuration: Partial<NonNullable<SendMessageRequest['configuration']>> = {},
): SendMessageRequest {
  const defaults = { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately: false };
  return { tenant: '', message: sent, configuration: { ...defaults, ...configuration }, metadata: undefined };
}

/** The text of an artifact. */
export function artifactText(task: Task, artifactId: string): string | undefined {
  return task.artifacts
    .find((artifact) => artifact.artifactId === artifactId)
    ?.parts.map(textOfPart)
    .join('');
}

export function textOfPart({ content }: Part): string {
  return content?.$case === 'text' ? content.value : '';
}

export async function collect<T>(stream: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const each of stream) all.push(each);
  return all;
}

/** A stream response in one word, for orders. */
export function shortOf({ payload }: StreamResponse): string {
  switch (payload?.$case) {
    case 'task':
      return `task:${payload.value.status?.state}`;
    case 'statusUpdate':
      return `status:${payload.value.status?.state}`;
    case 'artifactUpdate': {
      const { artifact, append, lastChunk } = payload.value;
      const flags = `${append ? '+' : ''}${lastChunk ? '.' : ''}`;
      return `${artifact?.artifactId}${flags}:${artifact?.parts.map(textOfPart).join('')}`;
    }
    default:
      return String(payload?.$case);
  }
}

export function isTask(result: Message | Task): result is Task {
  return !('messageId' in result);
}

/** The text of an artifact, as a client that follows a stream has it in the end. */
export function textIn(responses: readonly StreamResponse[], artifactId: string): string {
  let text = '';
  for (const { payload } of responses) {
    if (payload?.$case === 'task') {
      const artifact = payload.value.artifacts.find((each) => each.artifactId === artifactId);
      text = artifact?.parts.map(textOfPart).join('') ?? text;
    }
    if (payload?.$case !== 'artifactUpdate' || payload.value.artifact?.artifactId !== artifactId) continue;
    const piece = payload.value.artifact.parts.map(textOfPart).join('');
    text = payload.value.append ? text + piece : piece;
  }
  return text;
}
