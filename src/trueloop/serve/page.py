"""Two self-contained pages: one to try the model, one with the API documentation."""

import json
from collections.abc import Mapping
from html import escape
from typing import Any, Final

from trueloop.report.page import STYLE, full_page
from trueloop.results.artifact import Artifact
from trueloop.serve.inputs import Inputs
from trueloop.serve.openapi import example

__all__ = ["curl_lines", "docs_page", "python_lines", "try_page"]

CONTROLS: Final = """
main{max-width:48rem}h2{margin-top:2rem}label{display:block;margin:.6rem 0 .2rem}
textarea,input[type=password],button{border:1px solid var(--line);border-radius:.4rem;color:inherit;
background:var(--card)}
textarea,input[type=password]{width:100%;font:.85rem/1.5 ui-monospace,Menlo,Consolas,monospace;padding:.5rem}
textarea{height:9rem}button{font:inherit;padding:.4rem 1.2rem;margin:.6rem 0;cursor:pointer}
button:focus-visible,textarea:focus-visible,input:focus-visible{outline:2px solid var(--c0)}
pre{white-space:pre-wrap;overflow-wrap:anywhere}
canvas{image-rendering:pixelated;width:10rem;border:1px solid var(--line)}
.bar{height:.6rem;border-radius:.15rem;background:var(--c2);min-width:1px}
"""
"""What the style sheet of all pages lacks: `trueloop ui` has its controls in a file of its own."""
URL: Final = "http://127.0.0.1:8000"
SCRIPT: Final = """
const at=id=>document.getElementById(id), out=at('answer');
const row=(name,share)=>{const r=document.createElement('tr'),cells=[0,1,2].map(()=>r.insertCell());
 cells[0].textContent=name;cells[1].textContent=(100*share).toFixed(1)+' %';
 const bar=document.createElement('div');bar.className='bar';bar.style.width=100*share+'%';cells[2].append(bar);
 cells[2].style.width='50%';return r};
async function ask(body,type,query=''){
 out.replaceChildren('...');
 const headers=type?{'Content-Type':type}:{};
 if(at('key')&&at('key').value)headers['X-API-Key']=at('key').value;
 try{
  const begun=performance.now(),reply=await fetch('predict'+query,{method:'POST',headers,body}),told=await reply.json();
  const took=document.createElement('p');
  took.textContent=reply.ok?Math.round(performance.now()-begun)+' ms':'Refused ('+reply.status+'): '+told.error;
  const raw=document.createElement('pre');raw.textContent=JSON.stringify(told,null,1);
  const shown=[took];
  for(const one of told.predictions||[])if(one.probabilities&&!Array.isArray(one.probabilities)){
   const table=document.createElement('table');
   for(const [name,share] of
   Object.entries(one.probabilities).sort((a,b)=>b[1]-a[1]).slice(0,10))table.append(row(name,share));
   shown.push(table)} out.replaceChildren(...shown,raw);if(reply.ok)await look(body,headers,query)
 }catch(error){out.replaceChildren('No answer from the server: '+error.message)}}
const sized=s=>s.length===3&&[1,3,4].includes(s[0])&&s[1]>1&&s[2]>1;
function drawn(port,highest){const [channels,height,width]=port.shape,size=height*width;
 const canvas=document.createElement('canvas');canvas.width=width;canvas.height=height;
 const image=new ImageData(width,height),level=(c,i)=>255*port.values[c*size+i]/highest;
 for(let i=0;i<size;i++){for(let c=0;c<3;c++)image.data[4*i+c]=level(channels===1?0:c,i);
  image.data[4*i+3]=channels===4?level(3,i):255}
 canvas.getContext('2d').putImageData(image,0,0);return canvas}
async function look(body,headers,query){
 const reply=await fetch('preview'+query,{method:'POST',headers,body});if(!reply.ok)return;
 const told=await reply.json(),title=document.createElement('p');title.textContent='What the model saw:';
 const seen=told.inputs.map(port=>{const text=document.createElement('pre');
  text.textContent=port.name+': '+port.dtype+' ['+port.shape.join(', ')+']'
   +(sized(port.shape)?'':' '+port.values.slice(0,200).join(', ')+(port.values.length>200?', ...':''));
  return sized(port.shape)?[text,drawn(port,told.highest)]:[text]});
 out.append(title,...seen.flat())}
for(const block of document.querySelectorAll('pre.lines')){
 block.textContent=block.textContent.replaceAll('http://127.0.0.1:8000',location.origin);
 const copy=document.createElement('button');copy.textContent='Copy';
 copy.onclick=()=>navigator.clipboard.writeText(block.textContent);block.after(copy)}
at('send').onclick=()=>ask(at('json').value,'application/json');
const bytes=coded=>Uint8Array.from(atob(coded),letter=>letter.charCodeAt(0));
async function offer(){
 const box=at('samples'),key=at('key'),headers=key&&key.value?{'X-API-Key':key.value}:{};
 const note=text=>{const p=document.createElement('p');p.textContent=text;box.append(p)};
 try{
  const reply=await fetch('samples',{headers}),told=await reply.json();
  if(!reply.ok){note(told.error);return}
  box.replaceChildren(...[...box.children].slice(0,2));box.hidden=!told.samples.length&&!told.why;
  if(told.why)note(told.why);
  for(const one of told.samples){const button=document.createElement('button');
   const pixels=one.input.base64&&sized(one.input.shape)?bytes(one.input.base64):[];
   if(pixels.length===one.input.shape?.reduce((a,b)=>a*b,1)){
    const small=drawn({shape:one.input.shape,values:pixels},Math.max(1,...pixels));small.style.width='3rem';
    button.append(small)}
   button.append(' '+one.number+(one.target?': '+one.target:''));
   button.onclick=()=>ask(JSON.stringify({input:one.input}),'application/json');box.append(button,' ')}
 }catch(error){note('No answer from the server: '+error.message)}}
if(at('samples')){offer();if(at('key'))at('key').onchange=offer}
if(at('file'))at('file').onchange=()=>{const form=new FormData();for(const file of
at('file').files)form.append('file',file); ask(form,'',at('resize').checked?'?resize=true':'')};
if(at('say'))at('say').onclick=()=>ask(JSON.stringify({input:at('text').value}),'application/json');
"""


def try_page(artifact: Artifact, inputs: Inputs, *, key: bool, samples: bool = False) -> str:
    takes = "; ".join(f"{port.name}: {port.dtype} [{', '.join(map(_size, port.shape))}]" for port in artifact.inputs)
    parts = [
        f"<h1>{escape(artifact.name)}</h1>"
        f"<p class=soft>{escape(artifact.task)} &middot; {escape(artifact.target)} &middot; {escape(takes)} &middot; "
        "<a href=docs>API documentation</a></p>"
    ]
    if key:
        parts.append("<label for=key>API key</label><input id=key type=password autocomplete=off>")
    if samples:
        parts.append("<div id=samples><h2>Samples</h2><p class=soft>Of the run's validation data:</p></div>")
    if inputs.takes_pictures:
        height, width = artifact.preprocessing["size"]
        parts.append(
            f"<h2>Image</h2><input id=file type=file accept='image/png,image/jpeg' multiple aria-label='Images'>"
            f"<label><input id=resize type=checkbox checked> resize to {width} x {height}</label>"
        )
    if inputs.encode is not None:
        parts.append("<h2>Text</h2><textarea id=text aria-label=Text></textarea><button id=say>Predict</button>")
    shown = escape(json.dumps({"input": example(artifact, inputs)}))
    parts.append(
        f"<h2>JSON</h2><textarea id=json aria-label=JSON spellcheck=false>{shown}</textarea><button "
        "id=send>Predict</button>"
    )
    parts.append("<h2>Prediction</h2><div id=answer aria-live=polite></div><h2>From your own code</h2>")
    for title, lines in (("curl", curl_lines), ("Python", python_lines)):
        shown = escape(lines(artifact, inputs, key=key))
        parts.append(f"<p>{title}</p><pre class=lines id={title.lower()}>{shown}</pre>")
    parts.append(f"<script>{SCRIPT}</script>")
    return _html(artifact.name, "".join(parts))


def curl_lines(artifact: Artifact, inputs: Inputs, *, key: bool) -> str:
    """One command. The page replaces the address by the one that it was loaded from."""
    secret = ' -H "Authorization: Bearer $KEY"' if key else ""
    if inputs.takes_pictures:
        return f"curl '{URL}/predict?resize=true' -H 'Content-Type: image/png' --data-binary @image.png{secret}"
    body = json.dumps({"input": example(artifact, inputs)}).replace("'", r"\u0027")
    return f"curl {URL}/predict -H 'Content-Type: application/json' -d '{body}'{secret}"


def python_lines(artifact: Artifact, inputs: Inputs, *, key: bool) -> str:
    """With what Python brings along."""
    secret = ["headers['Authorization'] = 'Bearer ' + os.environ['KEY']"] if key else []
    picture = inputs.takes_pictures
    kind = "image/png" if picture else "application/json"
    asked = {"input": example(artifact, inputs)}
    body = "pathlib.Path('image.png').read_bytes()" if picture else f"json.dumps({asked!r}).encode()"
    return "\n".join(
        (
            f"import json, {'os, ' * key}{'pathlib, ' * picture}urllib.request",
            f"headers = {{'Content-Type': {kind!r}}}",
            *secret,
            f"body = {body}",
            f"request = urllib.request.Request('{URL}/predict{'?resize=true' * picture}', body, headers)",
            "print(json.load(urllib.request.urlopen(request))['predictions'])",
        )
    )


def _size(size: int | None) -> str:
    return "any" if size is None else str(size)


def docs_page(document: Mapping[str, Any]) -> str:
    """The OpenAPI document as HTML."""
    parts = [
        f"<h1>{escape(document['info']['title'])}</h1><p class=soft>{escape(document['info'].get('description', ''))} "
        "Machine-readable: <a href=openapi.json>openapi.json</a></p>"
    ]
    for path, methods in document["paths"].items():
        for method, told in methods.items():
            parts.append(f"<h2>{escape(method.upper())} {escape(path)}</h2><p>{escape(told.get('summary', ''))}</p>")
            for kind, content in told.get("requestBody", {}).get("content", {}).items():
                sample = content.get("example")
                shown = f"<pre>{escape(json.dumps(sample))}</pre>" if sample is not None else ""
                schema = escape(json.dumps(content.get("schema", {}), indent=1))
                details = f"<details><summary>Schema</summary><pre>{schema}</pre></details>"
                parts.append(f"<p><b>{escape(kind)}</b></p>{shown}{details}")
            answers = told["responses"].items()
            rows = "".join(f"<tr><td>{escape(str(code))}<td>{escape(each['description'])}" for code, each in answers)
            parts.append(f"<table><tr><th>Status<th>Meaning{rows}</table>")
    return _html(f"{document['info']['title']}: API documentation", "".join(parts))


def _html(title: str, body: str) -> str:
    style = STYLE.read_text(encoding="utf-8") + CONTROLS
    return full_page(escape(title), f"<style>{style}</style>", f"<main>{body}</main>")
