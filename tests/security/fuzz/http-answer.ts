/** What is wrong with an answer over HTTP to a request that is no good; `undefined` for nothing. */
export function faultOf(status: number, body: string): string | undefined {
  if (status >= 500 && status !== 503) return `status ${status}: ${body.slice(0, 300)}`;
  if (/"code":\s*-32603/.test(body)) return `internal error: ${body.slice(0, 300)}`;
  if (/"code":\s*(13|2)\b,/.test(body)) return `internal status: ${body.slice(0, 300)}`;
  if (/Cannot read prop|is not a function|undefined \(reading|node_modules/.test(body))
    return `words of the inside: ${body.slice(0, 300)}`;
  return undefined;
}

/** The body of an answer; of a stream, which may stay open, what comes up to here. */
export async function bodyOf(response: Response, upTo = /\n\n/): Promise<string> {
  if (!response.headers.get('content-type')?.startsWith('text/event-stream')) return response.text();
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = '';
  while (reader && !upTo.test(text)) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += decoder.decode(value, { stream: true });
  }
  await reader?.cancel();
  return text;
}
