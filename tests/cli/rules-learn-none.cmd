kara rules learn inputs/k2
