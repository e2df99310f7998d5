kara rules learn cli
