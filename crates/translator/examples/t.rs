fn main() {
    let wasm = std::fs::read(std::env::args().nth(1).unwrap()).unwrap();
    let t = karakoram_translator::translate(&wasm, &Default::default()).unwrap_or_else(|e| panic!("{e}"));
    std::fs::write("/tmp/extlab/o.ll", &t.ir).unwrap();
    let tc = karakoram_translator::toolchain::Toolchain::find().unwrap();
    let asm = tc.assembly(&t.ir).unwrap_or_else(|e| panic!("{e}"));
    let asm = karakoram_translator::launder::launder(&asm, if std::env::args().nth(3).is_some() { karakoram_translator::launder::Launder::None } else { karakoram_translator::launder::Launder::ByteOrder });
    std::fs::write("/tmp/extlab/o.s", &asm).unwrap();
    std::fs::write(std::env::args().nth(2).unwrap(), tc.assemble(&asm).unwrap_or_else(|e| panic!("{e}"))).unwrap();
}
