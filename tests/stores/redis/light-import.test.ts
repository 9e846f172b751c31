import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from '@jest/globals';

/** The files of ioredis that a program has loaded at its end. */
function loadedBy(program: string): string {
  const script = `import module from 'node:module';
${program}
console.log(Object.keys(module._cache).filter((file) => file.includes('ioredis')).length > 0);`;
  const cwd = fileURLToPath(new URL('../../../', import.meta.url));
  return execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd, encoding: 'utf8' }).trim();
}

it('S1-74 ioredis is loaded by the first store that connects, not by an import', () => {
  expect(loadedBy("import 'millrace'; import 'millrace/redis';")).toBe('false');
  const make = "StoreFactory.createStateStore({ type: 'redis', redis: 'redis://127.0.0.1:1' });";
  expect(loadedBy(`import { StoreFactory } from 'millrace'; ${make}`)).toBe('true');
});
