import { expect, it } from '@jest/globals';
import { LiveRegion } from 'millrace/internals';

it('redraws its lines in place, keeps what is committed above them, and writes nothing where nothing changed', () => {
  const written: string[] = [];
  const region = new LiveRegion((text) => written.push(text));
  region.draw(['one', 'two']);
  region.draw(['one', 'two']);
  region.draw(['three'], ['kept']);
  region.clear();
  region.clear();
  expect(written).toEqual(['one\ntwo\n', '\r\u001b[2A\u001b[Jkept\nthree\n', '\r\u001b[1A\u001b[J']);
});
