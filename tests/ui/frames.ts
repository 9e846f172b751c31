/** An event of a stream of server-sent events. */
export interface Frame {
  readonly event: string | undefined;
  readonly id: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
}

/** The events of a whole stream, without comment lines and the end of the AI SDK. */
export function lines(text: string): readonly Frame[] {
  return text.split('\n\n').flatMap((frame): readonly Frame[] => {
    const fields = new Map(
      frame.split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]),
    );
    const data = fields.get('data');
    if (data === undefined || data === '[DONE]') return [];
    return [{ event: fields.get('event'), id: fields.get('id'), data: JSON.parse(data) }];
  });
}

/** The data of the events of a whole stream, as JSON texts. */
export function dataOf(text: string): readonly string[] {
  return [...text.matchAll(/^data: (?!\[DONE\]$)(.*)$/gm)].map(([, data = '']) => data);
}
