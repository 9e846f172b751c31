import { expect } from '@jest/globals';
import { type InspectOptions, inspectHandler, type RowsEvent, type ShownRow } from 'millrace/inspect';

const origin = 'http://127.0.0.1:4100';

/** Asks an inspector as its page does. */
export class InspectClient {
  readonly handler: (request: Request) => Promise<Response>;

  constructor(options: Partial<InspectOptions> & Pick<InspectOptions, 'store'>) {
    this.handler = inspectHandler({ authorize: () => true, ...options });
  }

  send(path: string, init?: RequestInit): Promise<Response> {
    return this.handler(new Request(`${origin}/${path}`, init));
  }

  /** The body of an answer, which has to be a good one. */
  async get<T>(path: string): Promise<T> {
    const response = await this.send(`api/${path}`);
    const text = await response.text();
    expect([response.status, response.status === 200 ? '' : text]).toEqual([200, '']);
    return JSON.parse(text);
  }

  async post(path: string, body: unknown = {}): Promise<readonly [number, Readonly<Record<string, unknown>>]> {
    const headers = { 'content-type': 'application/json', 'sec-fetch-site': 'same-origin', origin };
    const response = await this.send(`api/tasks/${path}`, { method: 'POST', body: JSON.stringify(body), headers });
    const answer: Readonly<Record<string, unknown>> = Object(await response.json());
    return [response.status, answer];
  }

  /** The events of the rows of a turn. Leaving the loop disconnects. */
  async *rows(taskId: string): AsyncGenerator<RowsEvent> {
    const { body } = await this.send(`api/tasks/${taskId}/rows`);
    let rest = '';
    for await (const text of body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const frames = (rest + text).split('\n\n');
      rest = frames.pop() ?? '';
      for (const frame of frames) if (frame.startsWith('data: ')) yield JSON.parse(frame.slice('data: '.length));
    }
  }

  /** All rows of a turn that has ended or waits. `isEnough`: whether no more events are waited for. */
  async allRows(taskId: string, isEnough: (event: RowsEvent) => boolean = () => false): Promise<readonly ShownRow[]> {
    const rows: ShownRow[] = [];
    for await (const event of this.rows(taskId)) {
      if (event.type === 'rows') for (const row of event.rows) rows[row.index] = row;
      if (event.type === 'end' || isEnough(event)) break;
    }
    return rows;
  }
}
