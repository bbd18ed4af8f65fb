// Makes a Python parser of a Kaitai Struct description.
//
//   node compile.mjs COMPILER YAML DESCRIPTION.ksy FOLDER
//
// COMPILER and YAML are the folders of the npm packages kaitai-struct-compiler and yaml.
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';

const [compilerFolder, yamlFolder, description, folder] = process.argv.slice(2);
if (!folder) {
  console.error('usage: node compile.mjs COMPILER YAML DESCRIPTION.ksy FOLDER');
  process.exit(2);
}
const require = createRequire(import.meta.url);
const compiler = require(path.resolve(compilerFolder));
const yaml = require(path.resolve(yamlFolder));
let files;
try {
  files = await compiler.compile('python', yaml.parse(fs.readFileSync(description, 'utf8')), null, false);
} catch (problem) {
  console.error(String(problem.message ?? problem));
  process.exit(1);
}
for (const [name, text] of Object.entries(files)) fs.writeFileSync(path.join(folder, name), text);
